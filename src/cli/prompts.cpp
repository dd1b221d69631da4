#include "cli/prompts.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/unicode.h"
#include "models/json_fields.h"

namespace nanovllm::cli {
namespace {

using nlohmann::json;

[[noreturn]] void wrong(const char* key, const json& value, const char* want) {
  fail(ErrorKind::kRequest, key, " is ",
       value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80), ", want ", want);
}

std::vector<TokenId> token_ids(const char* key, const json& value) {
  std::vector<TokenId> ids;
  if (!value.is_array()) wrong(key, value, "a list of token ids");
  for (const json& id : value) {
    if (!id.is_number_integer() || id.get<int64_t>() < INT32_MIN || id.get<int64_t>() > INT32_MAX)
      wrong(key, value, "a list of token ids");
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::optional<int> whole_number(const json& line, const char* key) {
  if (!line.contains(key)) return std::nullopt;
  const json& value = line[key];
  if (!value.is_number_integer() || value.get<int64_t>() < INT32_MIN || value.get<int64_t>() > INT32_MAX)
    wrong(key, value, "a whole number");
  return value.get<int>();
}

std::optional<float> number(const json& line, const char* key) {
  if (!line.contains(key)) return std::nullopt;
  if (!line[key].is_number()) wrong(key, line[key], "a number");
  return line[key].get<float>();
}

std::optional<bool> truth(const json& line, const char* key) {
  if (!line.contains(key)) return std::nullopt;
  if (!line[key].is_boolean()) wrong(key, line[key], "true or false");
  return line[key].get<bool>();
}

// A string or a list of them.
std::optional<std::vector<std::string>> strings(const json& line, const char* key) {
  if (!line.contains(key)) return std::nullopt;
  const json& value = line[key];
  if (value.is_string()) return std::vector{value.get<std::string>()};
  const bool all_strings =
      value.is_array() && std::ranges::all_of(value, [](const json& s) { return s.is_string(); });
  if (!all_strings) wrong(key, value, "a string or a list of strings");
  return value.get<std::vector<std::string>>();
}

// {"785": -1.5}: a bias for each token id.
std::optional<std::map<TokenId, float>> biases(const json& line, const char* key) {
  constexpr const char* kWanted = "an object of token ids and numbers: {\"785\": -1.5}";
  if (!line.contains(key)) return std::nullopt;
  if (!line[key].is_object()) wrong(key, line[key], kWanted);
  std::map<TokenId, float> result;
  for (const auto& [text, value] : line[key].items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size() || !value.is_number())
      wrong(key, line[key], kWanted);
    result[id] = value.get<float>();
  }
  return result;
}

SamplingFlags sampling_flags(const json& line) {
  SamplingFlags flags{.n = whole_number(line, "n"),
                      .temperature = number(line, "temperature"),
                      .top_k = whole_number(line, "top_k"),
                      .top_p = number(line, "top_p"),
                      .min_p = number(line, "min_p"),
                      .max_tokens = whole_number(line, "max_tokens"),
                      .ignore_eos = truth(line, "ignore_eos"),
                      .stop = strings(line, "stop"),
                      .include_stop_str_in_output = truth(line, "include_stop_str_in_output"),
                      .skip_special_tokens = truth(line, "skip_special_tokens"),
                      .detokenize = truth(line, "detokenize"),
                      .logprobs = whole_number(line, "logprobs"),
                      .bad_words = strings(line, "bad_words"),
                      .min_tokens = whole_number(line, "min_tokens"),
                      .repetition_penalty = number(line, "repetition_penalty"),
                      .frequency_penalty = number(line, "frequency_penalty"),
                      .presence_penalty = number(line, "presence_penalty"),
                      .logit_bias = biases(line, "logit_bias")};
  if (line.contains("seed")) {
    if (!line["seed"].is_number_unsigned()) wrong("seed", line["seed"], "a whole number, 0 or more");
    flags.seed = line["seed"].get<uint64_t>();
  }
  if (line.contains("stop_token_ids"))
    flags.stop_token_ids = token_ids("stop_token_ids", line["stop_token_ids"]);
  if (line.contains("allowed_token_ids"))
    flags.allowed_token_ids = token_ids("allowed_token_ids", line["allowed_token_ids"]);
  return flags;
}

void refuse_unknown_keys(const json& line) {
  constexpr std::string_view kKnown[] = {"prompt",
                                         "messages",
                                         "n",
                                         "temperature",
                                         "top_k",
                                         "top_p",
                                         "min_p",
                                         "seed",
                                         "max_tokens",
                                         "ignore_eos",
                                         "stop_token_ids",
                                         "stop",
                                         "include_stop_str_in_output",
                                         "skip_special_tokens",
                                         "detokenize",
                                         "logprobs",
                                         "allowed_token_ids",
                                         "bad_words",
                                         "min_tokens",
                                         "repetition_penalty",
                                         "frequency_penalty",
                                         "presence_penalty",
                                         "logit_bias"};
  for (const auto& [key, value] : line.items()) {
    if (std::ranges::find(kKnown, key) != std::end(kKnown)) continue;
    std::string names;
    for (const std::string_view name : kKnown)
      names.append(name == "messages" ? " or " : names.empty() ? "" : ", ").append(name);
    fail(ErrorKind::kRequest, "has ", key, ", want ", names);
  }
}

PromptLine parse_object(const std::string& text) {
  const json line = parse_json_text(text, ErrorKind::kRequest, "");
  if (!line.is_object()) fail(ErrorKind::kRequest, "is ", line.type_name(), ", want a JSON object");
  refuse_unknown_keys(line);
  if (line.contains("prompt") == line.contains("messages"))
    fail(ErrorKind::kRequest, "has ", line.contains("prompt") ? "both" : "neither", " prompt ",
         line.contains("prompt") ? "and" : "nor", " messages, want one of them");
  PromptLine prompt;
  if (line.contains("messages")) {
    // From the text, for the order of keys and the digits of numbers: a template may print them.
    prompt.messages = prepare_messages(*jinja::parse_json(text).as_dict().find("messages"));
  } else if (line["prompt"].is_string()) {
    prompt.text = line["prompt"].get<std::string>();
  } else {
    prompt.token_ids = token_ids("prompt", line["prompt"]);
  }
  prompt.sampling = sampling_flags(line);
  return prompt;
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  std::error_code ignored;
  const bool flows =
      std::filesystem::is_fifo(path, ignored) || std::filesystem::is_character_file(path, ignored);
  if (path != "-" && !flows) return read_file(path, kMaxBytes);
  std::ifstream pipe;
  if (path != "-") pipe.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : pipe;
  std::string text, part(size_t{1} << 16, '\0');
  while (in.read(part.data(), std::streamsize(part.size())) || in.gcount() > 0) {
    text.append(part, 0, size_t(in.gcount()));
    if (text.size() > kMaxBytes)
      fail(ErrorKind::kDevice, path.string(), ": is longer than ", kMaxBytes, " bytes, want less");
  }
  return text;
}

void visit_lines(const std::filesystem::path& path,
                 const std::function<void(const std::string& line, const std::string& where)>& visit) {
  const std::string text = read_text(path);
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    begin = end + 1;
    ++number;
    if (!line.empty()) visit(line, path.string() + ":" + std::to_string(number));
  }
}

PromptLine parse_prompt_line(const std::string& text, const std::string& where) {
  try {
    return parse_object(text);
  } catch (const Error& error) {
    PromptLine line;
    line.error = replace_invalid_utf8(where + ": " + error.what());  // it may quote the line
    return line;
  }
}

std::vector<PromptLine> read_prompts(const std::filesystem::path& path, const std::string& format) {
  const bool by_ending = path.extension() == ".jsonl" || path.extension() == ".json";
  const bool is_jsonl = format == "auto" ? by_ending : format == "jsonl";

  std::vector<PromptLine> lines;
  visit_lines(path, [&](const std::string& line, const std::string& where) {
    if (is_jsonl) {
      lines.push_back(parse_prompt_line(line, where));
    } else {
      PromptLine& prompt = lines.emplace_back();
      prompt.text = line;
    }
  });
  return lines;
}

std::vector<TokenId> encode_text(const Tokenizer* tokenizer, const std::string& text) {
  return tokenizer ? tokenizer->encode(text, TemplateTokens::kAdd) : parse_ids(text);
}

std::vector<TokenId> parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<TokenId> ids;
  for (size_t begin = 0; (begin = text.find_first_not_of(kBetween, begin)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    TokenId id = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end)
      fail(ErrorKind::kRequest, "ids: '",
           replace_invalid_utf8(text.substr(begin, std::min<size_t>(end - begin, 40))),
           "' is not a token id, want whole numbers: 785 3974");
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

}  // namespace nanovllm::cli
