// One completion's tokens on their way through the engine. A request for n completions of a prompt is n sequences
// with one id.
//
//   waiting → running → finished;   num_computed_tokens counts the tokens whose K and V are in the cache. A
//   step computes num_scheduled_tokens more; when nothing is left to compute, the step's last row gives the
//   next token. A running sequence that is preempted waits again, with its output so far, and is computed anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "engine/logits_edits.h"
#include "engine/logprobs.h"

namespace nanovllm {

using RequestId = uint64_t;
using Clock = std::chrono::steady_clock;

enum class FinishReason {
  kNone,    // not finished
  kStop,    // EOS, one of stop_token_ids or of the stop strings
  kLength,  // max_tokens, the model's context or the cache is used up
  kAbort,   // the caller's wish
  kError,   // logits that are not numbers, no token that may be taken, or a step that could not be run
};
inline constexpr size_t kNumFinishReasons = 5;

std::string_view finish_reason_name(
    FinishReason reason);  // "stop", "length", "abort", "error"; "" while it runs

struct Sequence {
  int num_tokens() const { return int(token_ids.size()); }
  int num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  int num_uncomputed_tokens() const { return num_tokens() - num_computed_tokens; }
  bool finished() const { return finish_reason != FinishReason::kNone; }

  RequestId id = 0;
  int sample_index = 0;  // which of the request's completions
  int priority = 0;      // smaller goes first
  uint64_t arrival = 0;  // among equal priorities, the smaller goes first
  SamplingParams params;
  uint64_t seed = 0;                        // params.seed, or the one drawn for this request
  std::optional<LogitsEdits> logits_edits;  // none: nothing of the logits is changed
  std::vector<TokenId> token_ids;           // prompt, then output
  std::vector<TokenLogprobs> logprobs;      // of output tokens that were not taken yet, if params.logprobs
  int num_prompt_tokens = 0;
  int max_len = 0;  // prompt and output together
  int num_computed_tokens = 0;
  int num_scheduled_tokens = 0;  // in the step in hand
  int num_cached_tokens = 0;     // of the prompt, found in the prefix cache when it was first admitted
  int num_preemptions = 0;
  // How many that ran had ended when it was preempted last; -1: it was not.
  int64_t ended_before_preemption = -1;
  // The sequence before it, of the same request, is computing the prompt for both.
  bool shares_prompt = false;
  std::string cache_salt;            // only requests of the same salt share cached blocks
  std::vector<int32_t> block_table;  // physical block of each logical block
  int32_t copied_block = -1;         // before the step, the block it writes first is filled from this one
  int num_remembered_blocks = 0;     // that the block manager knows the contents of
  uint64_t content = 0;              // of the last of these
  FinishReason finish_reason = FinishReason::kNone;
  bool stopped_by_id = false;  // by one of params.stop_token_ids that is no EOS
  std::string error;           // why it ended with kError
  Clock::time_point arrival_time, admission_time, first_token_time, last_token_time, finish_time;
};

}  // namespace nanovllm
