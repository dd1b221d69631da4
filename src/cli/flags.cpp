#include "cli/flags.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <type_traits>

#include "cli/find_model.h"

namespace nanovllm::cli {
namespace {

constexpr char kMark = '\x01';

std::string flag_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace

std::vector<std::string> protected_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    const std::string argument = argv[i];
    arguments.push_back(argument.starts_with('[') ? kMark + argument : argument);
  }
  return arguments;
}

void unprotect(std::string& text) {
  if (text.starts_with(std::string{kMark, '['})) text.erase(0, 1);
}

void unprotect(std::filesystem::path& path) {
  std::string text = path.string();
  unprotect(text);
  path = text;
}

CLI::Validator no_sign() {
  return {[](const std::string& text) { return std::string(text.starts_with('-') ? "want 0 or more" : ""); },
          ""};
}

CLI::Option* add_model(CLI::App& app, std::filesystem::path& model) {
  return app
      .add_option(
          "model", model,
          "model folder in Hugging Face's form, or the name of one that Hugging Face's or ModelScope's "
          "tools have downloaded: Qwen/Qwen3-0.6B")
      ->type_name("MODEL")
      ->required();
}

std::string resolve_model(std::filesystem::path& model) {
  unprotect(model);
  const std::string name = model.string();
  model = find_model(model, model_caches([](const char* variable) { return std::getenv(variable); }));
  return name;
}

std::vector<CLI::Option*> add_engine_options(CLI::App& app, EngineConfig& config, const std::string& prefix,
                                             const char* group, std::span<const std::string_view> without) {
  std::vector<CLI::Option*> options;
  visit_options(config, [&](const char* name, auto& field, const char* help) {
    if (std::find(without.begin(), without.end(), name) != without.end()) return;
    const std::string flag = prefix + flag_name(name);
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, bool>)
      options.push_back(app.add_flag("--" + flag + ",!--" + prefix + "no-" + flag_name(name), field, help));
    else
      options.push_back(app.add_option("--" + flag, field, help)->capture_default_str());
    options.back()->group(group);
  });
  return options;
}

CLI::Option* add_engine_flags(CLI::App& app, EngineConfig& config) {
  CLI::Option* model = add_model(app, config.model);
  add_engine_options(app, config, "", "Engine");
  return model;
}

namespace {

// "785=-1.5"
std::map<TokenId, float> parse_biases(const std::vector<std::string>& pairs) {
  std::map<TokenId, float> biases;
  for (const std::string& pair : pairs) {
    const char* const end = pair.data() + pair.size();
    TokenId id = 0;
    float bias = 0;
    const auto read_id = std::from_chars(pair.data(), end, id);
    const bool has_id = read_id.ec == std::errc() && read_id.ptr < end && *read_id.ptr == '=';
    const auto read = has_id ? std::from_chars(read_id.ptr + 1, end, bias) : read_id;
    if (!has_id || read.ec != std::errc() || read.ptr != end)
      throw CLI::ValidationError("--logit-bias",
                                 "'" + pair + "' is no bias, want a token id and a number: 785=-1.5");
    biases[id] = bias;
  }
  return biases;
}

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  const char* group = "Sampling (what is left out comes from the model's generation_config.json)";
  app.add_option("--temperature", flags.temperature, "0 to 2; 0 is greedy")->group(group);
  app.add_option("--top-k", flags.top_k, "keep the k likeliest tokens; 0 keeps all")->group(group);
  app.add_option("--top-p", flags.top_p, "keep the fewest tokens whose probabilities reach p")->group(group);
  app.add_option("--min-p", flags.min_p,
                 "keep tokens with at least this part of the likeliest one's probability; 0 keeps all")
      ->group(group);
  app.add_option("--seed", flags.seed, "same seed, same answer")->check(no_sign())->group(group);
  app.add_option("--max-tokens", flags.max_tokens,
                 "most tokens of an answer (default: the rest of the context)")
      ->group(group);
  app.add_flag("--ignore-eos{true}", flags.ignore_eos, "go on past the end of text")->group(group);
  app.add_option("--stop-token-ids", flags.stop_token_ids, "token ids that end an answer: 5,17")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--logprobs", flags.logprobs,
                 "with --json: logprobs of each token and of so many of the likeliest, up to --max-logprobs; "
                 "-1: of all")
      ->group(group);
  app.add_option("--min-tokens", flags.min_tokens, "nothing ends an answer before it has so many")
      ->group(group);
  app.add_option("--repetition-penalty", flags.repetition_penalty,
                 "above 1: tokens of the prompt and the answer come less often")
      ->group(group);
  app.add_option("--frequency-penalty", flags.frequency_penalty,
                 "-2 to 2: taken from a token's logit for each time that the answer has it")
      ->group(group);
  app.add_option("--presence-penalty", flags.presence_penalty,
                 "-2 to 2: taken from the logits of tokens that the answer has")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&flags](const std::vector<std::string>& pairs) { flags.logit_bias = parse_biases(pairs); },
         "added to the logit of a token id: 785=-1.5,17=3")
      ->type_name("ID=BIAS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--allowed-token-ids", flags.allowed_token_ids, "no other token comes: 5,17")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  const auto unprotected = [](std::string& text) {
    unprotect(text);
    return std::string(text.empty() ? "is empty, want some text" : "");
  };
  app.add_option("--stop", flags.stop,
                 "text that ends an answer, and is not part of it; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->transform(CLI::Validator(unprotected, ""))
      ->group(group);
  app.add_option("--bad-words", flags.bad_words, "text that does not come; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->transform(CLI::Validator(unprotected, ""))
      ->group(group);
  app.add_flag("--include-stop-str-in-output{true}", flags.include_stop_str_in_output,
               "the text or token that ends an answer is part of it")
      ->group(group);
  app.add_flag("--no-skip-special-tokens{false}", flags.skip_special_tokens,
               "special tokens of an answer are shown")
      ->group(group);
}

std::vector<CLI::Option*> add_chat_flags(CLI::App& app, ChatFlags& flags, const std::string& when) {
  return {app.add_option("--system", flags.system, when + "system message"),
          app.add_flag("--no-think", flags.no_think, when + "answer without thinking first"),
          app.add_flag(
              "--special-tokens-in-messages", flags.special_tokens_in_messages,
              when + "a message's \"<|im_end|>\" is the token, not these letters: whoever writes messages "
                     "can then write the other side's turns")};
}

}  // namespace nanovllm::cli
