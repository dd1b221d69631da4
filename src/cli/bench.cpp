#include "cli/bench.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/python_random.h"
#include "engine/scheduler.h"
#include "llm/llm.h"
#include "models/model_config.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/ops.h"
#include "runtime/model_runner.h"
#include "tensor/machine.h"

namespace nanovllm::cli {
namespace {

using nlohmann::ordered_json;

void check_range(const char* name, int value, int min, int max) {
  if (value < min || value > max)
    fail(ErrorKind::kConfig, "--", name, ": is ", value, ", want ", min, " to ", max);
}

constexpr int kMost = 1 << 24;  // of anything that is counted here

void check(const ThroughputOptions& o) {
  check_range("num-prompts", o.num_prompts, 1, kMost);
  check_range("min-input-len", o.min_input_len, 1, kMost);
  check_range("max-input-len", o.max_input_len, o.min_input_len, kMost);
  check_range("min-output-len", o.min_output_len, 1, kMost);
  check_range("max-output-len", o.max_output_len, o.min_output_len, kMost);
  check_range("max-token-id", o.max_token_id, 0, kMost);
}

void check(const LatencyOptions& o) {
  check_range("context", o.context, 1, kMost);
  check_range("output-len", o.output_len, 1, kMost);
  check_range("runs", o.runs, 1, kMost);
  check_range("company", o.company, 0, o.engine.max_num_seqs - 1);
}

std::vector<TokenId> random_ids(PythonRandom& random, int count, int max_token_id, int64_t vocab_size) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(TokenId(random.randint(0, max_token_id) % vocab_size));
  return ids;
}

// Where the user names no max_model_len: what the benchmark needs, as far as the model has it.
EngineConfig with_context(EngineConfig config, int context) {
  if (config.max_model_len == 0)
    config.max_model_len = std::min(context, read_model_config(config.model).max_model_len);
  return config;
}

// A sequence that does not fit would end early, and the speed would be another one's.
void check_fits(const LLM& llm, int64_t num_tokens) {
  const BlockManager& blocks = llm.scheduler().blocks();
  const int64_t cache = int64_t(blocks.num_blocks()) * blocks.block_size();
  const int64_t most = std::min<int64_t>(llm.max_model_len(), cache);
  if (num_tokens > most)
    fail(ErrorKind::kConfig, "prompt and output: are up to ", num_tokens, " tokens, want at most ", most,
         ": max_model_len=", llm.max_model_len(), ", and the KV cache holds ", cache);
}

// What a run of steps read at least: the weights once a step, the keys and values of each sequence.
class ReadBytes {
 public:
  explicit ReadBytes(const LLM& llm)
      : weights_(double(llm.runner().memory_plan().step_weight_bytes)),
        key_(double(llm.runner().memory_plan().kv_block_bytes) / llm.scheduler().blocks().block_size()) {}

  void add(const StepStats& step) { total_ += weights_ + key_ * double(step.num_keys); }
  double gigabytes() const { return total_ / 1e9; }

 private:
  double weights_, key_, total_ = 0;
};

// FNV-1a over 32-bit words.
class Hash {
 public:
  void add(uint32_t word) { state_ = (state_ ^ word) * 0x100000001B3; }
  std::string hex() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(state_));
    return text;
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325;
};

// Of the last step; which rows that step had depends on the batches.
std::string logits_hash(const LLM& llm) {
  Hash hash;
  for (const float x : llm.runner().logits()) hash.add(std::bit_cast<uint32_t>(x));
  return hash.hex();
}

// Of all requests' output tokens, in the order of the requests: the same however they are run.
std::string answers_hash(const std::map<RequestId, std::vector<TokenId>>& answers) {
  Hash hash;
  for (const auto& [id, token_ids] : answers) {
    hash.add(uint32_t(token_ids.size()));
    for (const TokenId token : token_ids) hash.add(uint32_t(token));
  }
  return hash.hex();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

bool on_host(const LLM& llm) { return llm.runner().ops().device->memory().total == 0; }

// GB/s of the machine; none: of a GPU, nothing here measures it.
std::optional<double> measure_bandwidth(const LLM& llm) {
  if (!on_host(llm)) return std::nullopt;
  return median(read_bandwidth(llm.runner().num_threads()));
}

ordered_json or_null(std::optional<double> value) { return value ? ordered_json(*value) : ordered_json(); }

std::optional<double> share_of(double rate, std::optional<double> bandwidth) {
  if (!bandwidth) return std::nullopt;
  return rate / *bandwidth;
}

ordered_json describe(const LLM& llm, const BenchOptions& options, const char* what,
                      std::optional<double> bandwidth) {
  const OpTable& ops = llm.runner().ops();
  return {{"what", what},
          {"machine",
           on_host(llm) ? machine_name(llm.runner().num_threads(), ops.instruction_set) : cuda_device_name()},
          {"model", options.model_name},
          {"seed", options.seed},
          {"read_bandwidth_gb_per_s", or_null(bandwidth)}};
}

void print_row(const char* name, double value, const char* unit, const std::string& more = "") {
  std::printf("  %-22s %12.2f %s%s\n", name, value, unit, more.c_str());
}

void print_read(double rate, std::optional<double> bandwidth) {
  char share[80] = "";
  if (bandwidth)
    std::snprintf(share, sizeof share, ", %.0f %% of the %.1f that this machine reads",
                  100 * rate / *bandwidth, *bandwidth);
  print_row("read, at least", rate, "GB/s", share);
}

// An error of one request ends the benchmark: the rest would be another workload.
void check_output(const RequestOutput& output) {
  if (!output.error.empty()) fail(ErrorKind::kDevice, "request ", output.id, ": ", output.error);
}

// What a process that has run a while has done before: kernels loaded, and on a GPU the graphs of all sizes of a batch made.
void warm_up(LLM& llm, int num_seqs, SamplingParams params) {
  if (on_host(llm)) num_seqs = 1;
  const int length = std::min(on_host(llm) ? 1 : 32, llm.max_model_len() / 2);
  for (int i = 0; i < num_seqs; ++i) {
    const std::vector<TokenId> prompt(size_t(length), TokenId(i % llm.model_config().vocab_size));
    params.max_tokens = std::min(4 + std::min(i, 8) + i / 8, llm.max_model_len() - length);
    params.ignore_eos = true;
    llm.add_request(Prompt(prompt), params);
  }
  while (llm.has_unfinished())
    for (const RequestOutput& output : llm.step()) check_output(output);
}

// Answers that run beside what is measured, and the times between their tokens.
class Company {
 public:
  Company(LLM& llm, int size, uint64_t seed) : llm_(llm), random_(seed + 1) {
    const BlockManager& blocks = llm.scheduler().blocks();
    const int64_t cache = int64_t(blocks.num_blocks()) * blocks.block_size(),
                  most = int64_t(llm.max_model_len()) + int64_t(size) * length();
    if (size > 0 && most > cache)
      fail(ErrorKind::kConfig, "--company: ", size, " answers and the prompt are up to ", most,
           " tokens, and the KV cache holds ", cache, ": want fewer");
    for (int i = 0; i < size; ++i) add();
    for (int steps = 0; steps < 4 && size > 0; ++steps)  // all have begun, and the engine is warm
      for (const RequestOutput& output : llm.step()) take(output);
    gaps_.clear();
  }

  bool has(RequestId id) const { return last_time_.contains(id); }

  void take(const RequestOutput& output) {
    check_output(output);
    const Clock::time_point now = Clock::now();
    Clock::time_point& last = last_time_.at(output.id);
    if (last != Clock::time_point{}) gaps_.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
    if (!output.finished()) return;
    last_time_.erase(output.id);
    add();
  }

  const std::vector<double>& gaps() const { return gaps_; }  // seconds, since it was made

 private:
  static constexpr int kPrompt = 64, kOutput = 1024;

  int length() const { return std::min(kPrompt + kOutput, llm_.max_model_len()); }
  void add() {
    const int prompt = std::min(kPrompt, llm_.max_model_len() / 2);
    const RequestId id =
        llm_.add_request(Prompt(random_ids(random_, prompt, 10000, llm_.model_config().vocab_size)),
                         {.temperature = 0, .max_tokens = length() - prompt, .ignore_eos = true});
    last_time_[id] = {};
  }

  LLM& llm_;
  PythonRandom random_;
  std::map<RequestId, Clock::time_point> last_time_;
  std::vector<double> gaps_;
};

}  // namespace

Workload make_workload(const ThroughputOptions& o, int64_t vocab_size) {
  PythonRandom random(o.seed);
  Workload work;
  for (int i = 0; i < o.num_prompts; ++i) {
    const int length = random.randint(o.min_input_len, o.max_input_len);
    work.prompts.push_back(random_ids(random, length, o.max_token_id, vocab_size));
  }
  for (int i = 0; i < o.num_prompts; ++i)
    work.output_lens.push_back(random.randint(o.min_output_len, o.max_output_len));
  return work;
}

int run_throughput(const ThroughputOptions& options) {
  check(options);
  LLM llm(with_context(options.engine, 4096));
  check_fits(llm, options.max_input_len + options.max_output_len);
  const Workload work = make_workload(options, llm.model_config().vocab_size);
  const std::optional<double> bandwidth = measure_bandwidth(llm);
  warm_up(llm, std::min(options.num_prompts, options.engine.max_num_seqs), options.sampling);

  const int64_t preemptions_before = llm.scheduler().metrics().num_preemptions;
  const Clock::time_point start = Clock::now();
  SamplingParams params = options.sampling;
  params.ignore_eos = true;
  for (size_t i = 0; i < work.prompts.size(); ++i) {
    params.seed = i;
    params.max_tokens = work.output_lens[i];
    llm.add_request(Prompt(work.prompts[i]), params);
  }
  ReadBytes read(llm);
  std::map<RequestId, std::vector<TokenId>> answers;
  int64_t prompt_tokens = 0, output_tokens = 0, num_steps = 0;
  double device_busy = 0, device_idle = 0;
  std::vector<double> host_times;  // of steps of decodes
  for (; llm.has_unfinished(); ++num_steps) {
    for (const RequestOutput& output : llm.step()) {
      check_output(output);
      std::vector<TokenId>& answer = answers[output.id];
      answer.insert(answer.end(), output.token_ids.begin(), output.token_ids.end());
      if (!output.finished()) continue;
      prompt_tokens += output.num_prompt_tokens;
      output_tokens += output.num_output_tokens;
    }
    read.add(llm.last_step());
    device_busy += llm.last_step().device_busy;
    if (num_steps > 0) device_idle += llm.last_step().device_idle;
    if (llm.last_step().num_prefill_tokens == 0)
      host_times.push_back(llm.last_step().seconds - llm.last_step().waited);
  }
  const double busy_share = device_busy / (device_busy + device_idle);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double host_time = host_times.empty() ? 0 : median(host_times);
  const double output_rate = double(output_tokens) / seconds,
               total_rate = double(prompt_tokens + output_tokens) / seconds,
               read_rate = read.gigabytes() / seconds;
  const int64_t preemptions = llm.scheduler().metrics().num_preemptions - preemptions_before;
  if (options.json) {
    const auto or_null_on_host = [&](auto value) {
      return on_host(llm) ? ordered_json() : ordered_json(value);
    };
    ordered_json result = describe(llm, options, "throughput", bandwidth);
    result.update({{"num_prompts", options.num_prompts},
                   {"prompt_tokens", prompt_tokens},
                   {"output_tokens", output_tokens},
                   {"seconds", seconds},
                   {"output_tok_per_s", output_rate},
                   {"total_tok_per_s", total_rate},
                   {"read_gb_per_s", read_rate},
                   {"read_bandwidth_share", or_null(share_of(read_rate, bandwidth))},
                   {"device_busy_share", busy_share},
                   {"host_s_per_decode_step", or_null_on_host(host_time)},
                   {"memory_planned_bytes", or_null_on_host(llm.runner().memory_plan().total())},
                   {"memory_used_bytes", or_null_on_host(llm.runner().memory_used())},
                   {"steps", num_steps},
                   {"preemptions", preemptions},
                   {"answers", answers_hash(answers)},
                   {"last_logits", logits_hash(llm)}});
    std::cout << result.dump(2) << "\n";
    return 0;
  }
  std::printf("%d prompts of %lld tokens, %lld output tokens, %lld steps, %lld preemptions\n",
              options.num_prompts, static_cast<long long>(prompt_tokens),
              static_cast<long long>(output_tokens), static_cast<long long>(num_steps),
              static_cast<long long>(preemptions));
  print_row("time", seconds, "s");
  print_row("output", output_rate, "tok/s");
  print_row("prompts and output", total_rate, "tok/s");
  print_read(read_rate, bandwidth);
  print_row("device busy", 100 * busy_share, "%");
  if (!on_host(llm)) print_row("host, a decode step", 1e6 * host_time, "us");
  std::printf("  %-22s %s\n", "answers", answers_hash(answers).c_str());
  std::printf("  %-22s %s\n", "last logits", logits_hash(llm).c_str());
  return 0;
}

int run_latency(const LatencyOptions& options) {
  check(options);
  LLM llm(with_context(options.engine, options.context + options.output_len));
  check_fits(llm, options.context + options.output_len);
  PythonRandom random(options.seed);
  const std::optional<double> bandwidth = measure_bandwidth(llm);
  warm_up(llm, 1, {.temperature = 0});

  Company company(llm, options.company, options.seed);
  std::vector<double> first_token, per_token, read_rates;  // of each run, seconds and GB/s
  for (int run = 0; run < options.runs; ++run) {           // each its own prompt: nothing is cached
    llm.add_request(Prompt(random_ids(random, options.context, 10000, llm.model_config().vocab_size)),
                    {.temperature = 0, .max_tokens = options.output_len, .ignore_eos = true});
    ReadBytes read(llm);
    RequestOutput last;
    bool decoding = false;  // the first token is out
    while (!last.finished()) {
      for (RequestOutput& output : llm.step()) {
        if (company.has(output.id)) {
          company.take(output);
          continue;
        }
        check_output(output);
        last = std::move(output);
      }
      if (decoding) read.add(llm.last_step());
      decoding = last.num_output_tokens > 0;
    }
    first_token.push_back(std::chrono::duration<double>(last.first_token_time - last.arrival_time).count());
    if (options.output_len == 1) continue;
    const double decode = std::chrono::duration<double>(last.finish_time - last.first_token_time).count();
    per_token.push_back(decode / (options.output_len - 1));
    read_rates.push_back(read.gigabytes() / decode);
  }
  const double read_rate = per_token.empty() ? 0 : median(read_rates);
  if (options.json) {
    ordered_json result = describe(llm, options, "latency", bandwidth);
    result.update({{"context", options.context},
                   {"output_len", options.output_len},
                   {"runs", options.runs},
                   {"time_to_first_token_s", median(first_token)},
                   {"times_to_first_token_s", first_token}});
    if (!per_token.empty())
      result.update({{"time_per_output_token_s", median(per_token)},
                     {"times_per_output_token_s", per_token},
                     {"output_tok_per_s", 1 / median(per_token)},
                     {"read_gb_per_s", read_rate},
                     {"read_bandwidth_share", or_null(share_of(read_rate, bandwidth))}});
    if (options.company > 0)
      result.update({{"company", options.company},
                     {"company_time_between_tokens_s", median(company.gaps())},
                     {"company_longest_time_between_tokens_s", std::ranges::max(company.gaps())}});
    result["last_logits"] = logits_hash(llm);
    std::cout << result.dump(2) << "\n";
    return 0;
  }
  std::printf("one request at a time, prompt of %d tokens, %d output tokens, medians of %d\n",
              options.context, options.output_len, options.runs);
  print_row("time to first token", 1e3 * median(first_token), "ms");
  if (!per_token.empty()) {
    print_row("time per output token", 1e3 * median(per_token), "ms");
    print_row("output", 1 / median(per_token), "tok/s");
    print_read(read_rate, bandwidth);
  }
  if (options.company > 0) {
    std::printf("%d other answers beside it\n", options.company);
    print_row("between their tokens", 1e3 * median(company.gaps()), "ms");
    print_row("the longest", 1e3 * std::ranges::max(company.gaps()), "ms");
  }
  std::printf("  %-22s %s\n", "last logits", logits_hash(llm).c_str());
  return 0;
}

}  // namespace nanovllm::cli
