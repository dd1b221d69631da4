#include "tokenizer/chat_template.h"

#include "base/file.h"
#include "tokenizer/jinja_interpreter.h"
#include "tokenizer/jinja_parser.h"

namespace nanovllm {

using jinja::Dict;
using jinja::Value;

namespace {

Value read_config(const std::filesystem::path& path) {
  Value config;
  try {
    config = jinja::parse_json(read_file(path));
  } catch (const jinja::Failure& failure) {
    fail(ErrorKind::kConfig, path.string(), ": ", failure.what());
  }
  if (!config.is_dict())
    fail(ErrorKind::kConfig, path.string(), ": a value of type ", type_name(config), ", want an object");
  return config;
}

// "chat_template" of a config: the text, or nothing when there is none.
std::optional<std::string> template_of(const Value& config, const std::string& path) {
  const Value* found = config.as_dict().find("chat_template");
  if (!found || found->is_none()) return std::nullopt;
  if (found->is_string()) return found->text();
  if (found->is(jinja::Kind::kList)) {
    for (const Value& entry : found->items()) {
      if (!entry.is_dict()) continue;
      const Value* name = entry.as_dict().find("name");
      const Value* text = entry.as_dict().find("template");
      if (name && name->is_string() && name->text() == "default" && text && text->is_string())
        return text->text();
    }
    fail(ErrorKind::kConfig, path,
         ": chat_template is a list, want an entry with \"name\": \"default\" and a \"template\"");
  }
  fail(ErrorKind::kConfig, path, ": chat_template is ", type_name(*found), ", want a text or a list");
}

// A special token stands as a text or as {"content": text}.
const Value* token_of(const Value& config, std::string_view name) {
  const Value* token = config.as_dict().find(name);
  if (token && token->is_dict()) token = token->as_dict().find("content");
  return token && token->is_string() ? token : nullptr;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string name)
    : template_(std::make_shared<const jinja::Template>(
          jinja::parse_template(jinja::make_source(std::move(name), source)))) {
  defaults_.set("tools", Value::none());
  defaults_.set("documents", Value::none());
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_folder) {
  const std::filesystem::path file = model_folder / "chat_template.jinja",
                              config_file = model_folder / "tokenizer_config.json";
  const bool has_config = std::filesystem::exists(config_file);
  const Value config = has_config ? read_config(config_file) : Value::dict({});
  std::optional<ChatTemplate> loaded;
  if (std::filesystem::exists(file)) {
    loaded.emplace(read_file(file), file.string());
  } else if (const std::optional<std::string> text = template_of(config, config_file.string())) {
    loaded.emplace(*text, config_file.string() + "(chat_template)");
  } else {
    return std::nullopt;
  }
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (const Value* token = token_of(config, name))
      loaded->defaults_.set(name, Value::string({token->text(), Origin::kTemplate}));
  return loaded;
}

PromptText ChatTemplate::render(const Value& variables, std::time_t now) const {
  if (!variables.is_dict())
    fail(ErrorKind::kRequest, "the variables of a chat template are ", type_name(variables), ", want a dict");
  Dict all = defaults_;
  for (const auto& [name, value] : variables.as_dict().items()) all.set(name, value);
  const Value merged = Value::dict(std::move(all));
  jinja::Interpreter run(*template_, merged, now);
  try {
    return run.run();
  } catch (const jinja::Failure& failure) {
    fail(ErrorKind::kRequest, template_->source.where(run.offset()), ": ", failure.what());
  }
}

PromptText ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  return render_messages(to_value(messages), options);
}

PromptText ChatTemplate::render_messages(const Value& messages, const ChatOptions& options) const {
  Dict variables;
  variables.set("messages", messages);
  variables.set("add_generation_prompt", Value::boolean(options.add_generation_prompt));
  if (options.enable_thinking) variables.set("enable_thinking", Value::boolean(*options.enable_thinking));
  return render(Value::dict(std::move(variables)));
}

}  // namespace nanovllm
