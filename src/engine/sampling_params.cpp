#include "engine/sampling_params.h"

#include "base/error.h"

namespace nanovllm {

void check_sampling_params(const SamplingParams& params, int64_t vocab_size) {
  if (params.n < 1 || params.n > kMaxCompletions)
    fail(ErrorKind::kRequest, "n: is ", params.n, ", want 1 to ", kMaxCompletions);
  // Written so that NaN fails.
  if (!(params.temperature >= 0 && params.temperature <= 2))
    fail(ErrorKind::kRequest, "temperature: is ", params.temperature, ", want 0 to 2");
  if (params.top_k < -1) fail(ErrorKind::kRequest, "top_k: is ", params.top_k, ", want 0 (all) or more");
  if (!(params.top_p > 0 && params.top_p <= 1))
    fail(ErrorKind::kRequest, "top_p: is ", params.top_p, ", want more than 0 and at most 1");
  if (params.max_tokens < 1)
    fail(ErrorKind::kRequest, "max_tokens: is ", params.max_tokens, ", want at least 1");
  for (const TokenId id : params.stop_token_ids)
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kRequest, "stop_token_ids: has ", id, ", want ids from 0 to ", vocab_size - 1);
}

}  // namespace nanovllm
