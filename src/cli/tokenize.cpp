#include "cli/tokenize.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/unicode.h"
#include "cli/output.h"
#include "cli/prompts.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm::cli {
namespace {

// {"messages": [...], "tools": [...], ...}, or the messages alone. What a template may ask for beside these
// (enable_thinking ...) stands there too.
PromptText render_file(const ChatTemplate& chat_template, const std::string& path) {
  const std::string text = read_text(path);
  jinja::Value variables;
  try {
    variables = jinja::parse_json(text);
  } catch (const Error& error) {
    fail(ErrorKind::kRequest, path, ": ", error.what());
  }
  if (variables.is(jinja::Kind::kList)) {
    jinja::Dict dict;
    dict.set("messages", variables);
    variables = jinja::Value::dict(std::move(dict));
  }
  const jinja::Value* messages = variables.is_dict() ? variables.as_dict().find("messages") : nullptr;
  if (!messages || !messages->is(jinja::Kind::kList))
    fail(ErrorKind::kRequest, path,
         ": has no list of messages, want [{\"role\": ..., \"content\": ...}], or an object ",
         "with \"messages\"");
  jinja::Dict all = variables.as_dict();
  if (!all.find("add_generation_prompt")) all.set("add_generation_prompt", jinja::Value::boolean(true));
  return chat_template.render(jinja::Value::dict(std::move(all)));
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (options.decode) return parse_ids(options.text ? *options.text : read_text(options.input));
  if (options.chat.empty())
    return tokenizer.encode(options.text ? *options.text : read_text(options.input),
                            options.no_special_tokens ? TemplateTokens::kOmit : TemplateTokens::kAdd);
  const auto chat_template = ChatTemplate::load(options.model);
  if (!chat_template)
    fail(ErrorKind::kConfig, options.model.string(), ": has no chat template, want chat_template.jinja or ",
         "\"chat_template\" in tokenizer_config.json");
  return tokenizer.encode(render_file(*chat_template, options.chat).str());
}

// 785<tab>"The"<tab>54 68 65. Bytes that are no whole character show as U+FFFD.
std::string describe(const Tokenizer& tokenizer, TokenId id) {
  constexpr char kHex[] = "0123456789abcdef";
  const std::string_view bytes = tokenizer.token_bytes(id);
  std::string line = std::to_string(id) + "\t" + nlohmann::json(replace_invalid_utf8(bytes)).dump() + "\t";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) line += ' ';
    line += {kHex[(bytes[i] >> 4) & 15], kHex[bytes[i] & 15]};
  }
  return line + "\n";
}

}  // namespace

int run_tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = Tokenizer::load(options.model);
  const std::vector<TokenId> ids = encode(tokenizer, options);
  Output output("-");
  if (options.count) {
    output.write(std::to_string(ids.size()) + "\n");
  } else if (options.verbose) {
    std::string lines;
    for (const TokenId id : ids) lines += describe(tokenizer, id);
    output.write(lines);
  } else if (options.decode) {
    output.write(tokenizer.decode(ids, options.no_special_tokens ? SpecialText::kSkip : SpecialText::kKeep) +
                 "\n");
  } else {
    std::string line;
    for (const TokenId id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
    output.write(line + "\n");
  }
  return 0;
}

}  // namespace nanovllm::cli
