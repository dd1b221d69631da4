#include "llm/llm.h"

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "engine/scheduler.h"
#include "llm/load_tokenizer.h"
#include "llm/runner_config.h"
#include "llm/step_trace.h"
#include "models/generation_config.h"
#include "runtime/model_runner.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/stop_matcher.h"
#include "tokenizer/tokenizer.h"

namespace nanovllm {
namespace {

// Whoever says that a token ends a text is believed: config.json, generation_config.json, the tokenizer.
std::vector<TokenId> eos_union(const ModelConfig& config, const GenerationConfig& generation,
                               const std::optional<Tokenizer>& tokenizer) {
  std::set<TokenId> ids(config.eos_token_ids.begin(), config.eos_token_ids.end());
  ids.insert(generation.eos_token_ids.begin(), generation.eos_token_ids.end());
  if (tokenizer && tokenizer->eos_token_id()) ids.insert(*tokenizer->eos_token_id());
  std::erase_if(ids, [&](TokenId id) { return id >= config.vocab_size; });  // no logits, so it never comes
  if (ids.size() > kMaxEosTokenIds)
    fail(ErrorKind::kConfig, "eos_token_id: has ", ids.size(), " ids, want at most ", kMaxEosTokenIds);
  return {ids.begin(), ids.end()};
}

std::pair<RequestId, int> key_of(const Sequence& sequence) { return {sequence.id, sequence.sample_index}; }

int num_prefill_tokens(const Batch& batch) {
  int total = 0;
  for (size_t i = 0; i < size_t(batch.num_seqs()); ++i) {
    const int num_tokens = batch.cu_seqlens_q[i + 1] - batch.cu_seqlens_q[i];
    if (num_tokens > 1) total += num_tokens;
  }
  return total;
}

int num_output_tokens(const std::vector<RequestOutput>& outputs) {
  size_t total = 0;
  for (const RequestOutput& output : outputs) total += output.token_ids.size();
  return int(total);
}

}  // namespace

struct LLM::State {
  using StreamKey = std::pair<RequestId, int>;  // a request's completion
  struct Stream {                               // its way out
    std::optional<Detokenizer> detokenizer;     // none: token ids only
    std::optional<StopMatcher> stop_matcher;    // none: there are no stop strings
    int num_sent = 0;                           // output tokens

    // text: of the token behind num_before others; stop strings begin behind min_tokens tokens
    std::string push(const std::string& text, int num_before, int min_tokens) {
      return stop_matcher && num_before >= min_tokens ? stop_matcher->push(text) : text;
    }
    bool stopped() const { return stop_matcher && stop_matcher->found(); }
  };

  // What a parameter may be with this model and these options. throws Error(kRequest)
  void check_for_this_model(const SamplingParams& params) const;
  LogitsEdits make_edits(const SamplingParams& params, std::span<const TokenId> prompt) const;
  RequestOutput make_output(Sequence& sequence, Stream& stream) const;
  std::vector<RequestOutput> take_outputs(bool has_run);
  template <class Body>
  const Batch* traced(StepTrace::Line line, std::string_view name, int64_t step, Body&& body);
  void launch(const Batch& batch, int64_t step);
  void collect(const Batch& batch);
  const Batch& run_step();
  void drop_unwanted_step();
  void end_step(const std::exception& error);  // that could not be run

  ModelConfig model_config;
  GenerationConfig generation_config;
  std::string model_name;
  std::optional<Tokenizer> tokenizer;
  std::vector<TokenId> eos_token_ids;
  std::optional<ChatTemplate> chat_template;
  std::string chat_template_error;  // why there is none
  int max_model_len = 0, max_logprobs = 0;
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<Scheduler> scheduler;
  std::map<StreamKey, Stream> streams;
  RequestId next_id = 1;
  std::string failure;
  bool steps_ahead = false;  // the next step is begun before the ids of the one that runs are known
  const Batch* running_step = nullptr;  // begun, its ids are not collected
  std::unique_ptr<StepTrace> trace;     // null: not wanted
  int64_t num_steps = 0;                // that were collected
  Clock::duration waited{};             // in the step in hand, for the device
  StepStats last_step;
};

LLM::~LLM() = default;
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;

bool LLM::has_unfinished() const {
  return state_->scheduler->has_unfinished() || state_->scheduler->has_finished();
}
const std::string& LLM::failure() const { return state_->failure; }
int LLM::max_model_len() const { return state_->max_model_len; }
const StepStats& LLM::last_step() const { return state_->last_step; }
const ModelConfig& LLM::model_config() const { return state_->model_config; }
const GenerationConfig& LLM::generation_config() const { return state_->generation_config; }
const Tokenizer* LLM::tokenizer() const { return state_->tokenizer ? &*state_->tokenizer : nullptr; }
const ModelRunner& LLM::runner() const { return *state_->runner; }
const Scheduler& LLM::scheduler() const { return *state_->scheduler; }

Prompt LLM::chat_prompt(std::span<const ChatMessage> messages) const {
  return Prompt(chat_template().render(messages));
}

LLM::LLM(const EngineConfig& config) : state_(std::make_unique<State>()) {
  state_->model_name = config.model.string();
  state_->model_config = read_model_config(config.model);
  state_->generation_config = read_generation_config(config.model);
  if (config.async_scheduling == "on" && config.tensor_parallel_size > 1)
    fail(ErrorKind::kUnsupported, "async_scheduling: is on, want auto or off with tensor_parallel_size ",
         config.tensor_parallel_size);
  RunnerConfig runner_config = make_runner_config(config, state_->model_config);
  state_->max_model_len = runner_config.max_model_len;
  state_->max_logprobs = config.max_logprobs;
  state_->tokenizer = load_tokenizer(config.model);
  try {
    state_->chat_template = ChatTemplate::load(config.model);
    state_->chat_template_error =
        state_->model_name +
        ": has no chat template, want one in tokenizer_config.json or chat_template.jinja";
  } catch (const Error& error) {
    state_->chat_template_error = error.what();  // only who asks for the template needs to know
  }
  if (state_->tokenizer && state_->tokenizer->num_tokens() > state_->model_config.vocab_size)
    fail(ErrorKind::kConfig, state_->model_name, ": the tokenizer has ", state_->tokenizer->num_tokens(),
         " tokens, want at most vocab_size=", state_->model_config.vocab_size);

  state_->eos_token_ids = eos_union(state_->model_config, state_->generation_config, state_->tokenizer);
  if (state_->tokenizer) runner_config.num_valid_tokens = state_->tokenizer->num_tokens();
  state_->runner = std::make_unique<ModelRunner>(config.model, state_->model_config, runner_config);
  state_->steps_ahead =
      config.async_scheduling == "on" || (config.async_scheduling == "auto" && state_->runner->runs_behind());
  if (!config.trace_steps.empty()) state_->trace = std::make_unique<StepTrace>(config.trace_steps);
  state_->scheduler = std::make_unique<Scheduler>(
      SchedulerLimits{.max_num_seqs = runner_config.max_num_seqs,
                      .max_num_batched_tokens = runner_config.max_num_batched_tokens,
                      .max_model_len = state_->max_model_len,
                      .num_blocks = state_->runner->memory_plan().num_blocks,
                      .block_size = runner_config.block_size,
                      .prefix_caching = config.prefix_caching ? PrefixCaching::kOn : PrefixCaching::kOff},
      state_->eos_token_ids);
}

const ChatTemplate& LLM::chat_template() const {
  if (!state_->chat_template) fail(ErrorKind::kConfig, state_->chat_template_error);
  return *state_->chat_template;
}

RequestId LLM::add_request(const Prompt& prompt, const SamplingParams& params) {
  if (!failure().empty())
    fail(ErrorKind::kDevice, "the device failed, want a restart of the process: ", failure());
  check_sampling_params(params, state_->model_config.vocab_size);
  state_->check_for_this_model(params);
  for (const auto& [name, texts] : {std::pair{"stop", &params.stop}, {"bad_words", &params.bad_words}})
    if (!texts->empty() && !state_->tokenizer)
      fail(ErrorKind::kRequest, name, ": has strings, and ", state_->model_name,
           " has no tokenizer.json, want token ids (stop_token_ids, logit_bias)");
  auto sequence = std::make_unique<Sequence>();
  if (prompt.token_ids) {
    sequence->token_ids = *prompt.token_ids;
  } else {
    if (!state_->tokenizer)
      fail(ErrorKind::kRequest, state_->model_name, ": has no tokenizer.json, want token ids as prompt");
    sequence->token_ids = state_->tokenizer->encode_prompt(prompt.text, prompt.template_tokens);
  }
  for (const TokenId id : sequence->token_ids)
    if (id < 0 || id >= state_->model_config.vocab_size)
      fail(ErrorKind::kRequest, "prompt: has token id ", id, ", want ids from 0 to ",
           state_->model_config.vocab_size - 1);
  const RequestId id = state_->next_id++;
  sequence->id = id;
  sequence->params = params;
  sequence->seed = params.seed ? *params.seed : random_seed();
  sequence->cache_salt = prompt.cache_salt;
  sequence->priority = prompt.priority;
  sequence->num_prompt_tokens = sequence->num_tokens();
  if (LogitsEdits::are_wanted(params)) {
    sequence->logits_edits = state_->make_edits(params, sequence->token_ids);
    state_->runner->prepare_for_edits();
  }
  sequence->arrival_time = Clock::now();

  std::map<State::StreamKey, State::Stream> streams;  // all or nothing: a request that waits has its streams
  for (int i = 0; i < params.n; ++i) {
    State::Stream& stream = streams[{id, i}];
    if (state_->tokenizer && params.detokenize)
      stream.detokenizer.emplace(*state_->tokenizer,
                                 params.skip_special_tokens ? SpecialText::kSkip : SpecialText::kKeep);
    if (!params.stop.empty()) stream.stop_matcher.emplace(params.stop, params.include_stop_str_in_output);
  }
  state_->scheduler->add(std::move(sequence));
  state_->streams.merge(streams);
  return id;
}

bool LLM::abort(RequestId id) { return state_->scheduler->abort(id); }

void LLM::State::check_for_this_model(const SamplingParams& params) const {
  if (params.logprobs && max_logprobs >= 0 && (*params.logprobs < 0 || *params.logprobs > max_logprobs))
    fail(ErrorKind::kRequest, "logprobs: is ", *params.logprobs, ", want 0 to max_logprobs=", max_logprobs);
  if (!params.allowed_token_ids || !tokenizer) return;
  const auto is_known = [&](TokenId id) { return id < tokenizer->num_tokens(); };
  if (std::ranges::none_of(*params.allowed_token_ids, is_known))
    fail(ErrorKind::kRequest, "allowed_token_ids: has none that the tokenizer knows, want one from 0 to ",
         tokenizer->num_tokens() - 1);
}

LogitsEdits LLM::State::make_edits(const SamplingParams& params, std::span<const TokenId> prompt) const {
  std::vector<TokenId> end_token_ids = params.stop_token_ids;
  if (!params.ignore_eos)
    end_token_ids.insert(end_token_ids.end(), eos_token_ids.begin(), eos_token_ids.end());
  std::vector<std::vector<TokenId>> bad_words;
  for (std::string word : params.bad_words) {
    const size_t begin = word.find_first_not_of(' ');
    if (begin != word.npos) word.erase(0, begin);
    for (const std::string& text : {word, " " + word}) {  // as it stands at the beginning, and behind others
      std::vector<TokenId> ids = tokenizer->encode(text);
      if (!ids.empty()) bad_words.push_back(std::move(ids));
    }
  }
  return {params, prompt, std::move(end_token_ids), std::move(bad_words), model_config.vocab_size};
}

RequestOutput LLM::State::make_output(Sequence& sequence, Stream& stream) const {
  RequestOutput output{.id = sequence.id,
                       .index = sequence.sample_index,
                       .finish_reason = sequence.finish_reason,
                       .num_prompt_tokens = sequence.num_prompt_tokens,
                       .num_cached_tokens = sequence.num_cached_tokens,
                       .num_output_tokens = sequence.num_output_tokens(),
                       .seed = sequence.seed,
                       .error = sequence.error,
                       .arrival_time = sequence.arrival_time,
                       .first_token_time = sequence.first_token_time,
                       .finish_time = sequence.finish_time};
  const auto first = sequence.token_ids.begin() + sequence.num_prompt_tokens + stream.num_sent;
  output.token_ids.assign(first, sequence.token_ids.end());
  output.logprobs = std::exchange(sequence.logprobs, {});
  const int num_before = std::exchange(stream.num_sent, sequence.num_output_tokens());
  const auto push = [&](const std::string& text, size_t i) {
    return stream.push(text, num_before + int(i), sequence.params.min_tokens);
  };
  if (sequence.stopped_by_id) output.stop_reason = sequence.token_ids.back();
  if (!stream.detokenizer) return output;
  for (size_t i = 0; i < output.token_ids.size(); ++i) {
    const bool stops = i + 1 == output.token_ids.size() && sequence.finish_reason == FinishReason::kStop;
    if (!stops || sequence.params.include_stop_str_in_output)
      output.text += push(stream.detokenizer->push(output.token_ids[i]), i);
  }
  std::string held = sequence.finished() ? stream.detokenizer->finish() : "";
  const bool broken_off =
      sequence.finish_reason == FinishReason::kAbort || sequence.finish_reason == FinishReason::kError;
  if (!broken_off && !held.empty())  // it is of the last token
    output.text += stream.push(std::exchange(held, {}), stream.num_sent - 1, sequence.params.min_tokens);
  if (stream.stopped()) {  // at the very last token, too, whatever became of the step behind it
    output.finish_reason = FinishReason::kStop;
    output.stop_reason = *stream.stop_matcher->found();
    output.finish_time = Clock::now();
    output.error.clear();
  } else if (sequence.finished()) {
    if (stream.stop_matcher) output.text += stream.stop_matcher->finish();
    output.text += held;
  }
  return output;
}

// Of the sequences that got a token in this step, if one has run, or have finished; those whose text has a stop string end here.
std::vector<RequestOutput> LLM::State::take_outputs(bool has_run) {
  std::vector<RequestOutput> outputs;
  std::vector<const Sequence*> stopped;
  if (has_run)
    for (Sequence* sequence : scheduler->progressed()) {
      Stream& stream = streams.at(key_of(*sequence));
      outputs.push_back(make_output(*sequence, stream));
      if (stream.stopped()) stopped.push_back(sequence);
    }
  for (const Sequence* sequence : stopped) scheduler->stop(*sequence);
  for (const auto& sequence : scheduler->take_finished()) {
    const auto stream = streams.find(key_of(*sequence));
    if (!stream->second.stopped()) {
      outputs.push_back(make_output(*sequence, stream->second));
      if (stream->second.stopped()) scheduler->stop_finished(*sequence);
    }
    streams.erase(stream);
  }
  return outputs;
}

void LLM::State::end_step(const std::exception& error) {
  runner->discard();
  running_step = nullptr;
  const auto* known = dynamic_cast<const Error*>(&error);
  if (!known || known->kind() != ErrorKind::kDevice) return scheduler->fail_step(error.what());
  failure = error.what();
  scheduler->fail_all(failure);
}

// body gives the step's batch, or null.
template <class Body>
const Batch* LLM::State::traced(StepTrace::Line line, std::string_view name, int64_t step, Body&& body) {
  if (!trace) return body();
  const Clock::time_point begin = Clock::now();
  const Batch* batch = body();
  if (batch) trace->add(line, name, begin, Clock::now(), step, batch->num_tokens());
  return batch;
}

void LLM::State::launch(const Batch& batch, int64_t step) {
  traced(StepTrace::Line::kLaunch, "launch", step, [&] {
    runner->launch(batch);
    return &batch;
  });
}

void LLM::State::collect(const Batch& batch) {
  const Clock::time_point begin = Clock::now();
  const std::span<const TokenId> ids = runner->collect();
  const Clock::time_point now = Clock::now();  // a device that works behind has just ended the step
  waited += now - begin;
  if (trace) {
    const auto busy =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(runner->step_times().busy));
    trace->add(StepTrace::Line::kDevice, "step", now - busy, now, num_steps, batch.num_tokens());
  }
  traced(StepTrace::Line::kScheduler, "update", num_steps, [&] {
    scheduler->update(ids, runner->logprobs());
    return &batch;
  });
}

// Runs one, and begins the one behind it where that is certain.
const Batch& LLM::State::run_step() {
  const Batch* batch = std::exchange(running_step, nullptr);
  if (!batch) {
    batch =
        traced(StepTrace::Line::kScheduler, "schedule", num_steps, [&] { return &scheduler->schedule(); });
    if (batch->num_tokens() == 0) return *batch;
    launch(*batch, num_steps);
  }
  // First tokens do not wait until the step behind theirs is begun.
  const Batch* ahead = nullptr;
  if (steps_ahead && batch->num_tokens() == batch->num_seqs())
    ahead = traced(StepTrace::Line::kScheduler, "schedule", num_steps + 1,
                   [&] { return scheduler->schedule_ahead(); });
  std::exception_ptr failed;  // of the step behind: this one is still good
  try {
    if (ahead) launch(*ahead, num_steps + 1);
  } catch (...) {
    failed = std::current_exception();
  }
  collect(*batch);
  ++num_steps;
  if (failed) std::rethrow_exception(failed);
  running_step = ahead;
  drop_unwanted_step();
  return *batch;
}

// All have ended: nobody wants its ids.
void LLM::State::drop_unwanted_step() {
  if (!running_step || scheduler->num_running() > 0) return;
  collect(*std::exchange(running_step, nullptr));
  ++num_steps;
}

std::vector<RequestOutput> LLM::step() {
  const Clock::time_point start = Clock::now();
  state_->waited = {};
  const Batch* scheduled = nullptr;
  try {
    scheduled = &state_->run_step();
  } catch (const std::exception& error) {
    state_->end_step(error);
    throw;
  }

  const Batch& batch = *scheduled;
  const Clock::time_point output_start = Clock::now();
  std::vector<RequestOutput> outputs = state_->take_outputs(batch.num_tokens() > 0);
  if (state_->trace)
    state_->trace->add(StepTrace::Line::kOutput, "output", output_start, Clock::now(), state_->num_steps - 1,
                       batch.num_tokens());
  state_->last_step = {.num_prefill_tokens = num_prefill_tokens(batch),
                       .num_output_tokens = num_output_tokens(outputs),
                       .num_keys = std::accumulate(batch.seq_lens.begin(), batch.seq_lens.end(), int64_t{0}),
                       .seconds = std::chrono::duration<double>(Clock::now() - start).count(),
                       .waited = std::chrono::duration<double>(state_->waited).count(),
                       .device_busy = state_->runner->step_times().busy,
                       .device_idle = state_->runner->step_times().idle};
  try {
    state_->drop_unwanted_step();  // a stop string may have ended the last
  } catch (const std::exception& error) {
    state_->end_step(error);  // these outputs are still good
  }
  return outputs;
}

std::vector<Completion> LLM::generate(std::span<const Prompt> prompts, std::span<const SamplingParams> params,
                                      const GenerateHooks& hooks) {
  if (params.size() != 1 && params.size() != prompts.size())
    fail(ErrorKind::kRequest, "generate: has ", params.size(), " sets of sampling parameters for ",
         prompts.size(), " prompts, want one for all or one for each");
  if (has_unfinished())
    fail(ErrorKind::kRequest, "generate: other requests are unfinished, want step() until they are done");
  std::vector<Completion> completions;
  std::map<RequestId, size_t> first_of;
  try {
    for (size_t i = 0; i < prompts.size(); ++i) {
      const SamplingParams& p = params[params.size() == 1 ? 0 : i];
      const size_t first = completions.size();
      completions.resize(first + num_completions(p));
      try {
        first_of[add_request(prompts[i], p)] = first;
        continue;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kRequest) throw;
        for (size_t k = first; k < completions.size(); ++k)
          completions[k] = {.finish_reason = FinishReason::kError, .error = error.what()};
      }
      for (size_t k = first; hooks.on_completion && k < completions.size(); ++k)
        hooks.on_completion(k, completions[k]);
    }
    while (has_unfinished()) {
      for (const RequestOutput& output : step()) {
        const size_t index = first_of.at(output.id) + size_t(output.index);
        Completion& completion = completions[index];
        completion.text += output.text;
        completion.token_ids.insert(completion.token_ids.end(), output.token_ids.begin(),
                                    output.token_ids.end());
        completion.logprobs.insert(completion.logprobs.end(), output.logprobs.begin(), output.logprobs.end());
        completion.finish_reason = output.finish_reason;
        completion.stop_reason = output.stop_reason;
        completion.num_prompt_tokens = output.num_prompt_tokens;
        completion.num_cached_tokens = output.num_cached_tokens;
        completion.seed = output.seed;
        completion.error = output.error;
        if (hooks.on_text && !output.text.empty()) hooks.on_text(index, output.text);
        if (output.finished() && hooks.on_completion) hooks.on_completion(index, completion);
      }
      if (hooks.on_step && !hooks.on_step(state_->last_step))
        for (const auto& [id, first] : first_of) abort(id);
    }
  } catch (...) {  // nothing of this call stays behind
    for (const auto& [id, first] : first_of) abort(id);
    for (const auto& sequence : state_->scheduler->take_finished()) state_->streams.erase(key_of(*sequence));
    throw;
  }
  return completions;
}

}  // namespace nanovllm
