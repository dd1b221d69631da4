#include "cli/commands.h"

#include <array>
#include <iostream>
#include <memory>

#include "cli/bench.h"
#include "cli/chat.h"
#include "cli/completion.h"
#include "cli/doctor.h"
#include "cli/flags.h"
#include "cli/generate.h"
#include "cli/inspect.h"
#include "cli/schedule_view.h"
#include "cli/score.h"
#include "cli/tokenize.h"

namespace nanovllm::cli {
namespace {

Command add_generate(CLI::App& program) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App& app = *program.add_subcommand("generate", "answer prompts");
  app.footer(R"(Examples:
  nanovllm generate models/demo "Once upon a time"
  nanovllm generate models/demo --chat --seed 7 "Tell me a story."
  nanovllm generate models/demo --input prompts.txt --format jsonl
  nanovllm generate models/demo --input chats.jsonl --output answers.txt)");
  add_engine_flags(app, options->engine);
  app.add_option("prompts,--prompt", options->prompts, "prompts, exactly as they are given");
  app.add_option("--input", options->input,
                 "file of prompts: one a line, or .jsonl with prompt or messages (- is standard input)")
      ->type_name("FILE");
  app.add_option("--input-format", options->input_format, "how to read it; auto: by the file's ending")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}))
      ->capture_default_str();
  app.add_option("--output", options->output, "file of answers (- is standard output)")
      ->type_name("FILE")
      ->capture_default_str();
  CLI::Option* const format = app.add_option("--format", options->format, "of the answers")
                                  ->check(CLI::IsMember({"text", "jsonl"}))
                                  ->capture_default_str();
  app.add_flag_callback(
         "--json", [options] { options->format = "jsonl"; }, "the same as --format jsonl")
      ->excludes(format);
  app.add_flag("--chat", options->apply_chat_template, "prompts are user messages: apply the chat template");
  add_chat_flags(app, options->chat, "with --chat: ");
  add_sampling_flags(app, options->sampling);
  app.add_option("--n", options->sampling.n,
                 "answers to each prompt, up to 128, that differ if they are sampled");
  return {&app, [options] {
            for (std::string& prompt : options->prompts) unprotect(prompt);
            unprotect_all(options->input, options->output, options->chat.system);
            const ChatFlags& chat = options->chat;
            if (!options->apply_chat_template && options->input.empty() &&
                (chat.no_think || chat.special_tokens_in_messages || !chat.system.empty()))
              throw CLI::ValidationError("--system, --no-think and --special-tokens-in-messages want --chat");
            if (options->prompts.empty() && options->input.empty())
              throw CLI::ValidationError("want prompts, as arguments or with --input");
            resolve_model(options->engine.model);
            return run_generate(*options);
          }};
}

Command add_chat(CLI::App& program) {
  const auto options = std::make_shared<ChatCommandOptions>();
  CLI::App& app = *program.add_subcommand("chat", "talk with a model");
  app.footer(R"(Examples:
  nanovllm chat models/demo
  nanovllm chat models/demo --prompt "Tell me a story about a fox."
  nanovllm chat models/demo --system "Tell short stories." --temperature 0)");
  add_engine_flags(app, options->engine);
  app.add_option("--prompt", options->prompt, "answer this and end");
  add_chat_flags(app, options->chat, "");
  add_sampling_flags(app, options->sampling);
  return {&app, [options] {
            if (options->prompt) unprotect(*options->prompt);
            unprotect(options->chat.system);
            resolve_model(options->engine.model);
            return run_chat(*options);
          }};
}

Command add_tokenize(CLI::App& program) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App& app = *program.add_subcommand("tokenize", "text to token ids and back");
  app.footer(R"(Examples:
  nanovllm tokenize models/demo "Once upon a time"
  nanovllm tokenize models/demo --verbose --input story.txt
  nanovllm tokenize models/demo --decode "806 675 258 505"
  nanovllm tokenize models/demo --chat messages.json --count)");
  add_model(app, options->model);
  CLI::Option* text = app.add_option("text", options->text, "the text, or with --decode the token ids");
  CLI::Option* input = app.add_option("--input", options->input, "file of the text (- is standard input)")
                           ->type_name("FILE")
                           ->capture_default_str();
  CLI::Option* chat =
      app.add_option("--chat", options->chat,
                     "JSON file of messages, or of an object with messages, tools and whatever else "
                     "the chat template knows")
          ->type_name("FILE");
  CLI::Option* decode = app.add_flag("--decode", options->decode,
                                     "token ids (785 3974, or [785, 3974]) to text, and a line end");
  CLI::Option* count = app.add_flag("--count", options->count, "print only how many tokens it is");
  CLI::Option* verbose =
      app.add_flag("--verbose", options->verbose, "one token a line: id, text, bytes in hexadecimal");
  CLI::Option* no_special =
      app.add_flag("--no-special-tokens", options->no_special_tokens,
                   "add none around the text (BOS); with --decode, leave them out of the text");
  text->excludes(input)->excludes(chat);
  chat->excludes(input)->excludes(decode)->excludes(no_special);
  count->excludes(verbose);
  return {&app, [options] {
            if (options->text) unprotect(*options->text);
            unprotect_all(options->input, options->chat);
            resolve_model(options->model);
            return run_tokenize(*options);
          }};
}

struct InspectCommandOptions : InspectOptions {
  bool schedule = false;
  std::filesystem::path svg;
};

Command add_inspect(CLI::App& program) {
  const auto options = std::make_shared<InspectCommandOptions>();
  CLI::App& app = *program.add_subcommand("inspect", "look inside a model, or the scheduler");
  app.footer(R"(Examples:
  nanovllm inspect models/demo
  nanovllm inspect models/demo --tensor-parallel-size 2 --json
  nanovllm inspect models/demo --trace "Once upon a time" --layer 0
  nanovllm inspect models/demo --trace "Hello!" --chat --save trace.safetensors
  nanovllm inspect --schedule --svg schedule.svg)");
  CLI::Option* model = add_model(app, options->engine.model)->required(false);
  const std::vector<CLI::Option*> engine = add_engine_options(app, options->engine, "", "Engine");
  CLI::Option* trace =
      app.add_option("--trace", options->trace,
                     "one forward of this prompt, step by step (token ids where the model has no tokenizer)")
          ->type_name("PROMPT");
  CLI::Option* chat = app.add_flag("--chat", options->apply_chat_template,
                                   "with --trace: the prompt is a user message, apply the chat template")
                          ->needs(trace);
  for (CLI::Option* option : add_chat_flags(app, options->chat, "with --chat: ")) option->needs(chat);
  app.add_option("--layer", options->layer, "with --trace: only this layer")->needs(trace);
  app.add_option("--save", options->save, "with --trace: a safetensors file for all values")
      ->type_name("FILE")
      ->needs(trace);
  CLI::Option* schedule =
      app.add_flag("--schedule", options->schedule,
                   "a small workload step by step, without a model: who waits and runs, whose the blocks are")
          ->excludes(trace)
          ->excludes(model);
  for (CLI::Option* option : engine) {
    // A trace takes what its prompt needs; a schedule takes nothing but limits.
    const bool is_limit = option->check_lname("max-num-seqs") ||
                          option->check_lname("max-num-batched-tokens") ||
                          option->check_lname("max-model-len") || option->check_lname("kvcache-block-size") ||
                          option->check_lname("num-kvcache-blocks") || option->check_lname("prefix-caching");
    if (!is_limit) schedule->excludes(option);
    if (option->check_lname("cpu-kvcache-space") || (is_limit && !option->check_lname("kvcache-block-size")))
      trace->excludes(option);
  }
  app.add_option("--svg", options->svg, "with --schedule: a picture of it")
      ->type_name("FILE")
      ->needs(schedule);
  app.add_flag("--json", options->json, "print as JSON")->excludes(schedule);
  return {&app, [&app, options] {
            if (options->schedule) {
              unprotect(options->svg);
              const auto given = [&](const char* flag) { return app.count(flag) > 0; };
              EngineConfig& engine = options->engine;
              // What is not asked for is small: a picture can show it.
              if (!given("--max-num-seqs")) engine.max_num_seqs = 4;
              if (!given("--max-num-batched-tokens"))
                engine.max_num_batched_tokens = std::max(12, engine.max_num_seqs);
              if (!given("--max-model-len")) engine.max_model_len = 40;
              if (!given("--num-kvcache-blocks")) engine.num_kvcache_blocks = 10;
              if (!given("--kvcache-block-size")) engine.kvcache_block_size = 4;
              return run_schedule({.engine = engine, .svg = options->svg});
            }
            if (options->engine.model.empty()) throw CLI::ValidationError("want a model, or --schedule");
            if (options->trace) unprotect(*options->trace);
            unprotect_all(options->save, options->chat.system);
            options->model_name = resolve_model(options->engine.model);
            return options->trace ? run_trace(*options) : run_inspect(*options);
          }};
}

Command add_score(CLI::App& program) {
  const auto options = std::make_shared<ScoreOptions>();
  CLI::App& app = *program.add_subcommand("score", "how likely a model finds a text");
  app.footer(R"(Examples:
  nanovllm score models/demo "Once upon a time"
  nanovllm score models/demo --input story.txt --window 64 --stride 32
  nanovllm score models/demo --choices questions.jsonl --json
  nanovllm score models/demo --input story.txt --against models/demo \
      --against-tensor-parallel-size 2)");
  // A scorer sets these by itself: one sequence, steps of its own size, nothing shared.
  constexpr std::array<std::string_view, 3> kWithout{"max_num_seqs", "max_num_batched_tokens",
                                                     "prefix_caching"};
  add_model(app, options->engine.model);
  add_engine_options(app, options->engine, "", "Engine", kWithout);
  CLI::Option* text =
      app.add_option("text", options->text, "the text (token ids where the model has no tokenizer)");
  CLI::Option* input =
      app.add_option("--input", options->input, "file of the text (- is standard input)")->type_name("FILE");
  CLI::Option* choices =
      app.add_option(
             "--choices", options->choices,
             R"(multiple choice, JSONL: {"prompt": "...", "choices": ["...", "..."], "answer": 0} (answer may be absent))")
          ->type_name("FILE");
  app.add_option("--window", options->window,
                 "tokens that are scored together (0: the model's context, or 256 with --against)")
      ->capture_default_str()
      ->excludes(choices);
  app.add_option("--stride", options->stride, "how far apart windows begin (0: half of one)")
      ->capture_default_str()
      ->excludes(choices);
  CLI::Option* against =
      app.add_option("--against", options->against.model,
                     "another model, or the same under the options below: the KL divergence between both")
          ->type_name("MODEL");
  for (CLI::Option* option :
       add_engine_options(app, options->against, "against-", "Engine of --against", kWithout))
    option->needs(against);
  app.add_flag("--json", options->json, "print as JSON");
  text->excludes(input)->excludes(choices);
  choices->excludes(input)->excludes(against);
  return {&app, [options] {
            if (options->text) unprotect(*options->text);
            unprotect_all(options->input, options->choices);
            if (!options->text && options->input.empty() && options->choices.empty())
              throw CLI::ValidationError("want a text, --input or --choices");
            options->model_name = resolve_model(options->engine.model);
            if (!options->against.model.empty()) resolve_model(options->against.model);
            return run_score(*options);
          }};
}

Command add_doctor(CLI::App& program) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App& app = *program.add_subcommand("doctor", "what this machine has, and what would be chosen of it");
  app.footer(R"(Examples:
  nanovllm doctor
  nanovllm doctor --json)");
  app.add_flag("--json", options->json, "print as JSON");
  return {&app, [options] { return run_doctor(*options); }};
}

void add_bench_flags(CLI::App& app, BenchOptions& options) {
  add_engine_flags(app, options.engine);
  app.add_option("--seed", options.seed, "of the random prompts")->check(no_sign())->capture_default_str();
  app.add_flag("--json", options.json, "print the result as JSON");
}

Command add_throughput(CLI::App& bench) {
  const auto options = std::make_shared<ThroughputOptions>();
  CLI::App& app = *bench.add_subcommand("throughput",
                                        "many requests together, timed when the engine is warm; by default "
                                        "nano-vllm's own benchmark, token for token, and its context of "
                                        "4096 as far as the model has it");
  app.footer(R"(Examples:
  nanovllm bench throughput models/demo --num-prompts 8 --max-input-len 128 \
      --max-output-len 128
  nanovllm bench throughput models/demo --num-prompts 2 --max-output-len 100 \
      --tensor-parallel-size 2)");
  add_bench_flags(app, *options);
  app.add_option("--num-prompts", options->num_prompts, "requests, all at once")->capture_default_str();
  app.add_option("--min-input-len", options->min_input_len, "shortest prompt, in tokens")
      ->capture_default_str();
  app.add_option("--max-input-len", options->max_input_len, "longest prompt")->capture_default_str();
  app.add_option("--min-output-len", options->min_output_len, "shortest answer")->capture_default_str();
  app.add_option("--max-output-len", options->max_output_len, "longest answer")->capture_default_str();
  app.add_option("--max-token-id", options->max_token_id,
                 "largest id of the prompts; taken modulo the model's vocabulary")
      ->capture_default_str();
  SamplingParams& sampling = options->sampling;
  app.add_option("--temperature", sampling.temperature, "0 to 2; 0 is greedy")->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "of all requests; 0 keeps all")->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "of all requests; 1 keeps all")->capture_default_str();
  app.add_option("--logprobs", sampling.logprobs,
                 "of all requests: so many of the likeliest tokens in each place");
  app.add_option("--repetition-penalty", sampling.repetition_penalty, "of all requests; 1 changes nothing")
      ->capture_default_str();
  return {&app, [options] {
            options->model_name = resolve_model(options->engine.model);
            return run_throughput(*options);
          }};
}

Command add_latency(CLI::App& bench) {
  const auto options = std::make_shared<LatencyOptions>();
  CLI::App& app = *bench.add_subcommand(
      "latency", "one request at a time: time to the first token, and per token after it");
  app.footer(R"(Examples:
  nanovllm bench latency models/demo --context 128 --output-len 64
  nanovllm bench latency models/demo --context 400 --output-len 1 --company 8)");
  add_bench_flags(app, *options);
  app.add_option("--context", options->context, "tokens of the prompt")->capture_default_str();
  app.add_option("--output-len", options->output_len, "tokens of the answer")->capture_default_str();
  app.add_option("--runs", options->runs, "requests, one after the other; medians are shown")
      ->capture_default_str();
  app.add_option("--company", options->company,
                 "other answers that run all the while: shows how long they wait for a token")
      ->capture_default_str();
  return {&app, [options] {
            options->model_name = resolve_model(options->engine.model);
            return run_latency(*options);
          }};
}

Command add_completion(CLI::App& program) {
  CLI::App& app = *program.add_subcommand("completion", "a script for bash: completes commands and options");
  app.footer(R"(Examples:
  source <(nanovllm completion))");
  return {&app, [&program] {
            std::cout << bash_completion(program);
            return 0;
          }};
}

}  // namespace

std::vector<Command> add_commands(CLI::App& program) {
  std::vector<Command> commands{add_generate(program), add_chat(program),  add_tokenize(program),
                                add_inspect(program),  add_score(program), add_doctor(program)};
  CLI::App& bench = *program.add_subcommand("bench", "how fast a model runs here");
  bench.require_subcommand(1);
  commands.push_back(add_throughput(bench));
  commands.push_back(add_latency(bench));
  commands.push_back(add_completion(program));
  return commands;
}

}  // namespace nanovllm::cli
