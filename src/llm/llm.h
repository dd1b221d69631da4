// The front door for those who embed the engine.
//
//   LLM llm({.model = "models/demo"});
//   const std::vector<Prompt> prompts{Prompt("Once upon a time")};
//   const std::vector<SamplingParams> params{SamplingParams{}};
//   for (const Completion& c : llm.generate(prompts, params)) std::cout << c.text;
//
// or, request by request: add_request, then step() until has_unfinished() is false; each step gives what
// became certain. A request is judged when it comes in: a bad one throws Error(kRequest) and changes nothing
// for the others. Single-threaded: one thread at a time calls an LLM. Several LLMs live side by side in one
// process. An LLM that was moved from can only be destroyed or assigned to. Warnings go to stderr; with several ranks, one that
// never returns ends the process (parallel/thread_ranks.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/sequence.h"
#include "llm/config.h"
#include "tokenizer/prompt_text.h"

namespace nanovllm {

class ChatTemplate;
class ModelRunner;
class Scheduler;
class Tokenizer;
struct GenerationConfig;
struct ModelConfig;

// What to continue: a text, a chat, or token ids that somebody else has made.
struct Prompt {
  // A text may hold special tokens, and gets those that tokenizer.json puts around a text (Llama's BOS), as
  // with Hugging Face's tokenizer(text).
  explicit Prompt(const char* raw) : Prompt(std::string(raw)) {}
  explicit Prompt(std::string raw)
      : text(std::move(raw), Origin::kTemplate), template_tokens(TemplateTokens::kAdd) {}
  // A chat has all its special tokens from the template; those that a message spells are plain text.
  explicit Prompt(PromptText rendered) : text(std::move(rendered)) {}
  explicit Prompt(std::vector<TokenId> ids) : token_ids(std::move(ids)) {}

  PromptText text;
  TemplateTokens template_tokens = TemplateTokens::kOmit;
  std::optional<std::vector<TokenId>> token_ids;
  // Only prompts of the same salt share what is cached: give one to each who must not notice others.
  std::string cache_salt;
  // Smaller goes first, among equal ones who came first. What runs is interrupted only where memory ends.
  int priority = 0;
};

// What ended an answer: one of stop_token_ids, or of the stop strings; neither: EOS, or something else.
using StopReason = std::variant<std::monostate, TokenId, std::string>;

// What one completion of a request got in a step.
struct RequestOutput {
  RequestId id = 0;
  int index = 0;                        // which of the request's completions (SamplingParams::n)
  std::string text;                     // what became certain: the pieces joined are the answer
  std::vector<TokenId> token_ids;       // new in this step
  std::vector<TokenLogprobs> logprobs;  // of these, if SamplingParams::logprobs
  FinishReason finish_reason = FinishReason::kNone;
  StopReason stop_reason;
  int num_prompt_tokens = 0;  // the same for all completions: it counts once
  int num_cached_tokens = 0;  // of the prompt, that were not computed
  int num_output_tokens = 0;  // so far
  uint64_t seed = 0;          // used for sampling; gives the same answer again
  std::string error;          // why it ended with kError
  Clock::time_point arrival_time, first_token_time, finish_time;

  bool finished() const { return finish_reason != FinishReason::kNone; }
};

// A whole answer.
struct Completion {
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;  // of each token, if SamplingParams::logprobs
  FinishReason finish_reason = FinishReason::kNone;
  StopReason stop_reason;
  int num_prompt_tokens = 0;
  int num_cached_tokens = 0;  // of the prompt, that were not computed
  uint64_t seed = 0;
  std::string error;  // why the request was refused or ended with kError; "" if all is well
};

// What a step did, for progress displays.
struct StepStats {
  int num_prefill_tokens = 0;  // of sequences that computed more than one
  int num_output_tokens = 0;
  int64_t num_keys = 0;  // that were attended to, each sequence's once
  double seconds = 0;
  double waited = 0;       // of these, for a device that works behind
  double device_busy = 0;  // seconds that the device worked on it
  double device_idle = 0;  // and had waited since the step before it
};

// What generate() tells while it runs; each may be empty. index: in what generate() returns.
struct GenerateHooks {
  std::function<void(size_t index, const std::string& text)> on_text;  // a piece of an answer
  std::function<void(size_t index, const Completion& completion)>
      on_completion;                                   // an answer is whole, or refused
  std::function<bool(const StepStats& step)> on_step;  // false: end all that is unfinished (kAbort)
};

class LLM {
 public:
  // Loads the model. throws Error, naming option, file or field
  explicit LLM(const EngineConfig& config);
  ~LLM();
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;

  // A conversation as the model's template writes it. throws Error: the model has none, or it refuses the messages
  Prompt chat_prompt(std::span<const ChatMessage> messages) const;

  // throws Error(kRequest): the prompt or a parameter is wrong; Error(kDevice): failure() says why
  RequestId add_request(const Prompt& prompt, const SamplingParams& params);
  // throws Error: the step could not be run; its requests have ended with kError, all others go on. Error(kDevice): the
  // device failed, so all requests have ended with kError
  std::vector<RequestOutput> step();
  // Ends a request; the last outputs of its completions come from the next step(). False: there is none of this id.
  bool abort(RequestId id);
  bool has_unfinished() const;
  // Why no request can run any more: the device failed, and only a new process has it back. Empty: all is well.
  const std::string& failure() const;

  // All answers, in the order of the prompts: n for each, so completion i of prompt p is at p · n + i where all have
  // the same n. One set of parameters for all, or one for each prompt. A prompt that is refused gets its completions
  // (one, if n is what is wrong) with the error; the others go on.
  // throws Error(kRequest): the number of parameter sets fits neither; requests of add_request are
  // unfinished. What a hook throws ends all of generate's requests and goes on to the caller.
  std::vector<Completion> generate(std::span<const Prompt> prompts, std::span<const SamplingParams> params,
                                   const GenerateHooks& hooks = {});

  int max_model_len() const;
  const StepStats& last_step() const;

  // The parts, for programs inside this project: their headers are not installed.
  const ModelConfig& model_config() const;
  const GenerationConfig& generation_config() const;
  const Tokenizer* tokenizer() const;  // null: the model has none
  // throws Error(kConfig): the model folder has no chat template, or one that cannot be parsed
  const ChatTemplate& chat_template() const;
  const ModelRunner& runner() const;
  const Scheduler& scheduler() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nanovllm
