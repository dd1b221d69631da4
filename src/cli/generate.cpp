#include "cli/generate.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/unicode.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompts.h"
#include "llm/llm.h"
#include "models/generation_config.h"
#include "tokenizer/chat_messages.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm::cli {
namespace {

nlohmann::ordered_json to_json(const StopReason& reason) {
  if (const auto* id = std::get_if<TokenId>(&reason)) return *id;
  if (const auto* text = std::get_if<std::string>(&reason)) return *text;
  return nullptr;
}

// {"id": 785, "token": "The", "bytes": [84, 104, 101], "logprob": -0.5}, as OpenAI's chat completions have them, and the id.
nlohmann::ordered_json to_json(const Logprob& entry, const Tokenizer* tokenizer) {
  nlohmann::ordered_json json{{"id", entry.id}};
  if (tokenizer) {
    const std::string_view bytes = tokenizer->token_bytes(entry.id);
    json["token"] = replace_invalid_utf8(bytes);
    json["bytes"] = std::vector<uint8_t>(bytes.begin(), bytes.end());
  }
  json["logprob"] = std::isfinite(entry.logprob) ? nlohmann::ordered_json(entry.logprob) : nullptr;
  return json;
}

nlohmann::ordered_json logprobs_json(const Completion& c, const Tokenizer* tokenizer) {
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < c.logprobs.size(); ++i) {
    nlohmann::ordered_json json = to_json(Logprob{c.token_ids[i], c.logprobs[i].logprob}, tokenizer);
    json["top_logprobs"] = nlohmann::ordered_json::array();
    for (const Logprob& top : c.logprobs[i].top) json["top_logprobs"].push_back(to_json(top, tokenizer));
    list.push_back(std::move(json));
  }
  return list;
}

std::string json_line(size_t index, size_t prompt_index, const Completion& c, const Tokenizer* tokenizer) {
  nlohmann::ordered_json line{{"index", index},
                              {"prompt_index", prompt_index},
                              {"text", c.text},
                              {"token_ids", c.token_ids},
                              {"finish_reason", finish_reason_name(c.finish_reason)},
                              {"stop_reason", to_json(c.stop_reason)},
                              {"prompt_tokens", c.num_prompt_tokens},
                              {"cached_tokens", c.num_cached_tokens},
                              {"completion_tokens", c.token_ids.size()},
                              {"seed", c.seed}};
  if (!c.logprobs.empty()) line["logprobs"] = logprobs_json(c, tokenizer);
  if (!c.error.empty()) line["error"] = c.error;
  // An error may quote bytes that are no UTF-8.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Answers in the order of the prompts, each once those before it are out.
class Writer {
 public:
  // prompt_of: the prompt of each answer. tokenizer: null: tokens have no texts
  Writer(Output& output, bool jsonl, std::vector<size_t> prompt_of, const Tokenizer* tokenizer)
      : output_(output),
        jsonl_(jsonl),
        prompt_of_(std::move(prompt_of)),
        tokenizer_(tokenizer),
        pending_(prompt_of_.size()) {}

  void add(size_t index, const Completion& completion) {
    pending_[index] = completion;
    while (next_ < pending_.size() && pending_[next_]) write_next();
  }

  // After an interruption: what is finished, though something before it is not.
  void flush() {
    for (; next_ < pending_.size();)
      if (pending_[next_])
        write_next();
      else
        ++next_;
  }

 private:
  void write_next() {
    const Completion& c = *pending_[next_];
    if (jsonl_)
      output_.write(json_line(next_, prompt_of_[next_], c, tokenizer_));
    else  // a refused prompt leaves an empty answer in its place
      output_.write(c.text + (pending_.size() > 1 ? "\n\n" : "\n"));
    pending_[next_++] = Completion{};
  }

  Output& output_;
  bool jsonl_;
  std::vector<size_t> prompt_of_;
  const Tokenizer* tokenizer_;
  std::vector<std::optional<Completion>> pending_;
  size_t next_ = 0;
};

// Text of a line as the model is to see it.
Prompt make_prompt(const PromptLine& line, const GenerateOptions& options, const LLM& llm) {
  if (line.token_ids) return Prompt(*line.token_ids);
  if (!options.apply_chat_template && !line.messages) return Prompt(line.text);
  const std::vector<ChatMessage> only{{"user", line.text}};
  return Prompt(
      render_chat(llm.chat_template(), line.messages ? *line.messages : to_value(only), options.chat));
}

std::vector<PromptLine> all_prompts(const GenerateOptions& options) {
  std::vector<PromptLine> lines;
  for (const std::string& prompt : options.prompts) lines.emplace_back().text = prompt;
  if (!options.input.empty())
    for (PromptLine& line : read_prompts(options.input, options.input_format))
      lines.push_back(std::move(line));
  if (lines.empty()) fail(ErrorKind::kConfig, options.input, ": has no prompts");
  return lines;
}

// What cannot become a request is answered with its error; the rest is generated together.
struct Work {
  std::vector<Prompt> prompts;
  std::vector<SamplingParams> params;
  std::vector<size_t> prompt_of;         // of each answer, its line
  std::vector<size_t> generated;         // the answers that generate() gives, in its order
  std::map<size_t, std::string> errors;  // the answers that it does not
};

Work make_work(const std::vector<PromptLine>& lines, const GenerateOptions& options, const LLM& llm) {
  Work work;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t answer = work.prompt_of.size();
    work.prompt_of.push_back(i);
    if (!lines[i].error.empty()) {
      work.errors[answer] = lines[i].error;
      continue;
    }
    try {
      Prompt prompt = make_prompt(lines[i], options, llm);
      work.params.push_back(resolve(merged(lines[i].sampling, options.sampling), llm.generation_config()));
      work.prompts.push_back(std::move(prompt));
    } catch (const Error& bad_line) {
      work.errors[answer] = bad_line.what();
      continue;
    }
    work.prompt_of.resize(answer + num_completions(work.params.back()), i);
    for (size_t k = answer; k < work.prompt_of.size(); ++k) work.generated.push_back(k);
  }
  return work;
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  std::vector<PromptLine> lines = all_prompts(options);
  std::error_code ignored;
  if (options.output != "-" && std::filesystem::equivalent(options.input, options.output, ignored))
    fail(ErrorKind::kConfig, options.output, ": is the input, want another file for the answers");
  LLM llm(options.engine);
  if (options.apply_chat_template) llm.chat_template();  // throws where there is none
  Output output(options.output);                         // what was there goes only once the model has loaded

  const Work work = make_work(lines, options, llm);
  Writer writer(output, options.format == "jsonl", work.prompt_of, llm.tokenizer());
  Progress progress(work.prompt_of.size());
  Interrupts interrupts;
  bool all_good = true, interrupted = false;
  const auto complete = [&](size_t answer, const Completion& completion) {
    if (completion.finish_reason == FinishReason::kAbort) return;
    progress.add_finished();
    progress.clear();
    if (!completion.error.empty()) {
      all_good = false;
      std::cerr << "nanovllm: error: prompt " << work.prompt_of[answer] + 1 << ": " << completion.error
                << "\n";
    }
    writer.add(answer, completion);
  };
  for (const auto& [answer, error] : work.errors)
    complete(answer, {.finish_reason = FinishReason::kError, .error = error});
  llm.generate(work.prompts, work.params,
               {.on_completion = [&](size_t i, const Completion& c) { complete(work.generated[i], c); },
                .on_step =
                    [&](const StepStats& step) {
                      progress.add_step(step);
                      return !(interrupted |= interrupts.take());
                    }});
  progress.clear();
  if (isatty(STDERR_FILENO)) std::cerr << progress.text() << "\n";
  if (!interrupted) return all_good ? 0 : 1;
  writer.flush();
  return kInterruptedExitCode;
}

}  // namespace nanovllm::cli
