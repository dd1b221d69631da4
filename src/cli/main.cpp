// The program: subcommands and their flags. What each does is in its own file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <type_traits>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/chat.h"
#include "cli/doctor.h"
#include "cli/find_model.h"
#include "cli/generate.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "cli/schedule_view.h"
#include "cli/score.h"
#include "cli/tokenize.h"

namespace nanovllm::cli {
namespace {

constexpr int kUsageError = 2;

std::string flag_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

// CLI11 takes "[a, b]" apart as a list. A prompt is a prompt: a mark in front keeps such arguments whole.
constexpr char kMark = '\x01';

// In the reverse order that CLI::App::parse wants.
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
template <class... Fields>
void unprotect_all(Fields&... fields) {
  (unprotect(fields), ...);
}

// A negative number for an unsigned option would be taken modulo 2^64.
CLI::Validator no_sign() {
  return {[](const std::string& text) { return std::string(text.starts_with('-') ? "want 0 or more" : ""); },
          ""};
}

constexpr const char* kModelHelp =
    "model folder in Hugging Face's form, or the name of one that Hugging Face's or ModelScope's tools have "
    "downloaded: Qwen/Qwen3-0.6B";

// From what was typed, which is returned, to where it lies.
std::string resolve_model(std::filesystem::path& model) {
  unprotect(model);
  const std::string name = model.string();
  model = find_model(model, model_caches([](const char* variable) { return std::getenv(variable); }));
  return name;
}

// prefix: "against_" makes --against-num-threads of num_threads.
void add_engine_options(CLI::App& app, EngineConfig& config, const std::string& prefix, const char* group) {
  visit_options(config, [&](const char* name, auto& field, const char* help) {
    const std::string flag = flag_name(prefix + name);
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, bool>)
      app.add_flag(flag + ",!--no-" + flag.substr(2), field, help)->group(group);
    else
      app.add_option(flag, field, help)->capture_default_str()->group(group);
  });
}

// → the option of the model
CLI::Option* add_engine_flags(CLI::App& app, EngineConfig& config) {
  CLI::Option* model = app.add_option("model", config.model, kModelHelp)->required();
  add_engine_options(app, config, "", "Engine");
  return model;
}

void add_sampling_flags(CLI::App& app, SamplingFlags& flags) {
  const char* group = "Sampling (what is left out comes from the model's generation_config.json)";
  app.add_option("--temperature", flags.temperature, "0 to 2; 0 is greedy")->group(group);
  app.add_option("--top-k", flags.top_k, "keep the k likeliest tokens; 0 keeps all")->group(group);
  app.add_option("--top-p", flags.top_p, "keep the fewest tokens whose probabilities reach p")->group(group);
  app.add_option("--seed", flags.seed, "same seed, same answer")->check(no_sign())->group(group);
  app.add_option("--max-tokens", flags.max_tokens,
                 "most tokens of an answer (default: the rest of the context)")
      ->group(group);
  app.add_flag("--ignore-eos{true}", flags.ignore_eos, "go on past the end of text")->group(group);
  app.add_option("--stop-token-ids", flags.stop_token_ids, "token ids that end an answer: 5,17")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
}

void add_chat_flags(CLI::App& app, ChatFlags& flags, const std::string& when) {
  app.add_option("--system", flags.system, when + "system message");
  app.add_flag("--no-think", flags.no_think, when + "answer without thinking first");
  app.add_flag("--special-tokens-in-messages", flags.special_tokens_in_messages,
               when +
                   "a message's \"<|im_end|>\" is the token, not these letters: whoever writes messages can "
                   "then write the other side's turns");
}

void add_tokenize_flags(CLI::App& app, TokenizeOptions& options) {
  app.add_option("model", options.model, kModelHelp)->required();
  CLI::Option* text = app.add_option("text", options.text, "the text, or with --decode the token ids");
  CLI::Option* input = app.add_option("--input", options.input, "file of the text (- is standard input)")
                           ->capture_default_str();
  CLI::Option* chat =
      app.add_option("--chat", options.chat,
                     "JSON file of messages, or of an object with messages, tools and whatever else "
                     "the chat template knows");
  CLI::Option* decode = app.add_flag("--decode", options.decode,
                                     "token ids (785 3974, or [785, 3974]) to text, and a line end");
  CLI::Option* count = app.add_flag("--count", options.count, "print only how many tokens it is");
  CLI::Option* verbose =
      app.add_flag("--verbose", options.verbose, "one token a line: id, text, bytes in hexadecimal");
  CLI::Option* no_special =
      app.add_flag("--no-special-tokens", options.no_special_tokens,
                   "add none around the text (BOS); with --decode, leave them out of the text");
  text->excludes(input)->excludes(chat);
  chat->excludes(input)->excludes(decode)->excludes(no_special);
  count->excludes(verbose);
}

void add_bench_flags(CLI::App& app, BenchOptions& options) {
  add_engine_flags(app, options.engine);
  app.add_option("--seed", options.seed, "of the random prompts")->check(no_sign())->capture_default_str();
  app.add_flag("--json", options.json, "print the result as JSON");
}

void add_throughput_flags(CLI::App& app, ThroughputOptions& options) {
  add_bench_flags(app, options);
  app.add_option("--num-prompts", options.num_prompts, "requests, all at once")->capture_default_str();
  app.add_option("--min-input-len", options.min_input_len, "shortest prompt, in tokens")
      ->capture_default_str();
  app.add_option("--max-input-len", options.max_input_len, "longest prompt")->capture_default_str();
  app.add_option("--min-output-len", options.min_output_len, "shortest answer")->capture_default_str();
  app.add_option("--max-output-len", options.max_output_len, "longest answer")->capture_default_str();
  app.add_option("--max-token-id", options.max_token_id,
                 "largest id of the prompts; taken modulo the model's vocabulary")
      ->capture_default_str();
  app.add_option("--temperature", options.temperature, "0 to 2; 0 is greedy")->capture_default_str();
}

void add_latency_flags(CLI::App& app, LatencyOptions& options) {
  add_bench_flags(app, options);
  app.add_option("--context", options.context, "tokens of the prompt")->capture_default_str();
  app.add_option("--output-len", options.output_len, "tokens of the answer")->capture_default_str();
  app.add_option("--runs", options.runs, "requests, one after the other; medians are shown")
      ->capture_default_str();
}

void add_inspect_flags(CLI::App& app, InspectOptions& options, bool& schedule, std::filesystem::path& svg) {
  add_engine_flags(app, options.engine)->required(false);
  CLI::Option* trace =
      app.add_option("--trace", options.trace,
                     "one forward of this prompt, step by step (token ids where the model has no tokenizer)");
  app.add_flag("--chat", options.apply_chat_template,
               "with --trace: the prompt is a user message, apply the chat template")
      ->needs(trace);
  add_chat_flags(app, options.chat, "with --chat: ");
  app.add_option("--layer", options.layer, "with --trace: only this layer")->needs(trace);
  app.add_option("--save", options.save, "with --trace: a safetensors file for all values")->needs(trace);
  CLI::Option* schedule_flag =
      app.add_flag("--schedule", schedule,
                   "a small workload step by step, without a model: who waits and runs, whose the blocks are")
          ->excludes(trace);
  app.add_option("--svg", svg, "with --schedule: a picture of it")->needs(schedule_flag);
  app.add_flag("--json", options.json, "print as JSON")->excludes(schedule_flag);
}

void add_score_flags(CLI::App& app, ScoreOptions& options) {
  add_engine_flags(app, options.engine);
  CLI::Option* text =
      app.add_option("text", options.text, "the text (token ids where the model has no tokenizer)");
  CLI::Option* input = app.add_option("--input", options.input, "file of the text (- is standard input)");
  CLI::Option* choices = app.add_option(
      "--choices", options.choices,
      R"(multiple choice, JSONL: {"prompt": "...", "choices": ["...", "..."], "answer": 0} (answer may be absent))");
  app.add_option("--window", options.window,
                 "tokens that are scored together (0: the model's context, or 256 with --against)")
      ->capture_default_str();
  app.add_option("--stride", options.stride, "how far apart windows begin (0: half of one)")
      ->capture_default_str();
  CLI::Option* against =
      app.add_option("--against", options.against.model,
                     "another model, or the same under the options below: the KL divergence between both");
  add_engine_options(app, options.against, "against_", "Engine of --against");
  app.add_flag("--json", options.json, "print as JSON");
  text->excludes(input)->excludes(choices);
  choices->excludes(input)->excludes(against);
}

int run(int argc, char** argv) {
  CLI::App app("nanovllm: a small, fast engine for Qwen-class language models");
  app.require_subcommand(1);
  app.set_version_flag("--version", NANOVLLM_VERSION);

  GenerateOptions generate;
  CLI::App& generate_app = *app.add_subcommand("generate", "answer prompts");
  add_engine_flags(generate_app, generate.engine);
  generate_app.add_option("prompts,--prompt", generate.prompts, "prompts, exactly as they are given");
  generate_app.add_option(
      "--input", generate.input,
      "file of prompts: one a line, or .jsonl with prompt or messages (- is standard input)");
  generate_app
      .add_option("--input-format", generate.input_format, "text, jsonl, or auto: by the file's ending")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  generate_app.add_option("--output", generate.output, "file of answers (- is standard output)")
      ->capture_default_str();
  generate_app.add_option("--format", generate.format, "text or jsonl")
      ->check(CLI::IsMember({"text", "jsonl"}))
      ->capture_default_str();
  generate_app.add_flag("--chat", generate.apply_chat_template,
                        "prompts are user messages: apply the chat template");
  add_chat_flags(generate_app, generate.chat, "with --chat: ");
  add_sampling_flags(generate_app, generate.sampling);
  generate_app.add_option("--n", generate.sampling.n,
                          "answers to each prompt, up to 128, that differ if they are sampled");

  ChatCommandOptions chat;
  CLI::App& chat_app = *app.add_subcommand("chat", "talk with a model");
  add_engine_flags(chat_app, chat.engine);
  chat_app.add_option("--prompt", chat.prompt, "answer this and end");
  add_chat_flags(chat_app, chat.chat, "");
  add_sampling_flags(chat_app, chat.sampling);

  TokenizeOptions tokenize;
  CLI::App& tokenize_app = *app.add_subcommand("tokenize", "text to token ids and back");
  add_tokenize_flags(tokenize_app, tokenize);

  InspectOptions inspect;
  CLI::App& inspect_app = *app.add_subcommand("inspect", "look inside a model");
  bool schedule = false;
  ScheduleOptions schedule_options;
  add_inspect_flags(inspect_app, inspect, schedule, schedule_options.svg);

  ScoreOptions score;
  CLI::App& score_app = *app.add_subcommand("score", "how likely a model finds a text");
  add_score_flags(score_app, score);

  DoctorOptions doctor;
  CLI::App& doctor_app =
      *app.add_subcommand("doctor", "what this machine has, and what would be chosen of it");
  doctor_app.add_flag("--json", doctor.json, "print as JSON");

  CLI::App& bench_app = *app.add_subcommand("bench", "how fast a model runs here");
  bench_app.require_subcommand(1);
  ThroughputOptions throughput;
  CLI::App& throughput_app = *bench_app.add_subcommand("throughput",
                                                       "many requests together; by default nano-vllm's own "
                                                       "benchmark, token for token, and its context of 4096 "
                                                       "as far as the model has it");
  add_throughput_flags(throughput_app, throughput);
  LatencyOptions latency;
  CLI::App& latency_app = *bench_app.add_subcommand(
      "latency", "one request at a time: time to the first token, and per token after it");
  add_latency_flags(latency_app, latency);

  try {
    app.parse(protected_arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  if (generate_app.parsed()) {
    for (std::string& prompt : generate.prompts) unprotect(prompt);
    unprotect_all(generate.input, generate.output, generate.chat.system);
    const ChatFlags& flags = generate.chat;
    if (!generate.apply_chat_template && generate.input.empty() &&
        (flags.no_think || flags.special_tokens_in_messages || !flags.system.empty())) {
      std::cerr << "nanovllm: generate: --system, --no-think and --special-tokens-in-messages want --chat\n";
      return kUsageError;
    }
    if (generate.prompts.empty() && generate.input.empty()) {
      std::cerr << "nanovllm: generate: want prompts, as arguments or with --input\n";
      return kUsageError;
    }
    resolve_model(generate.engine.model);
    return run_generate(generate);
  }
  if (tokenize_app.parsed()) {
    if (tokenize.text) unprotect(*tokenize.text);
    unprotect_all(tokenize.input, tokenize.chat);
    resolve_model(tokenize.model);
    return run_tokenize(tokenize);
  }
  if (inspect_app.parsed()) {
    if (schedule) {
      unprotect(schedule_options.svg);
      schedule_options.engine = inspect.engine;
      return run_schedule(schedule_options);
    }
    if (inspect.engine.model.empty()) {
      std::cerr << "nanovllm: inspect: want a model, or --schedule\n";
      return kUsageError;
    }
    if (inspect.trace) unprotect(*inspect.trace);
    unprotect(inspect.save);
    inspect.model_name = resolve_model(inspect.engine.model);
    return inspect.trace ? run_trace(inspect) : run_inspect(inspect);
  }
  if (doctor_app.parsed()) return run_doctor(doctor);
  if (score_app.parsed()) {
    if (score.text) unprotect(*score.text);
    unprotect_all(score.input, score.choices);
    if (!score.text && score.input.empty() && score.choices.empty()) {
      std::cerr << "nanovllm: score: want a text, --input or --choices\n";
      return kUsageError;
    }
    score.model_name = resolve_model(score.engine.model);
    if (!score.against.model.empty()) resolve_model(score.against.model);
    return run_score(score);
  }
  if (throughput_app.parsed()) {
    throughput.model_name = resolve_model(throughput.engine.model);
    return run_throughput(throughput);
  }
  if (latency_app.parsed()) {
    latency.model_name = resolve_model(latency.engine.model);
    return run_latency(latency);
  }
  if (chat.prompt) unprotect(*chat.prompt);
  unprotect_all(chat.chat.system);
  resolve_model(chat.engine.model);
  return run_chat(chat);
}

}  // namespace
}  // namespace nanovllm::cli

int main(int argc, char** argv) {
  try {
    const int code = nanovllm::cli::run(argc, argv);
    nanovllm::cli::check_printed();
    return code;
  } catch (const nanovllm::Error& error) {
    std::cerr << "nanovllm: error: " << error.what() << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "nanovllm: error: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "nanovllm: error: " << error.what() << "\n";
  }
  return 1;
}
