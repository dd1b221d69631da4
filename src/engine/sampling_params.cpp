#include "engine/sampling_params.h"

#include <algorithm>

#include "base/error.h"
#include "base/unicode.h"

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
  if (!(params.min_p >= 0 && params.min_p <= 1))
    fail(ErrorKind::kRequest, "min_p: is ", params.min_p, ", want 0 to 1");
  if (params.max_tokens < 1)
    fail(ErrorKind::kRequest, "max_tokens: is ", params.max_tokens, ", want at least 1");
  for (const TokenId id : params.stop_token_ids)
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kRequest, "stop_token_ids: has ", id, ", want ids from 0 to ", vocab_size - 1);
  if (params.stop.size() > kMaxStops)
    fail(ErrorKind::kRequest, "stop: has ", params.stop.size(), " strings, want at most ", kMaxStops);
  for (const std::string& stop : params.stop) {
    if (stop.empty()) fail(ErrorKind::kRequest, "stop: has an empty string, want none");
    if (find_invalid_utf8(stop) < stop.size())
      fail(ErrorKind::kRequest,
           "stop: has a string that is no UTF-8, want UTF-8: ", replace_invalid_utf8(stop.substr(0, 80)));
    if (stop.size() > kMaxStopBytes)
      fail(ErrorKind::kRequest, "stop: has a string of ", stop.size(), " bytes, want at most ",
           kMaxStopBytes);
  }
  if (!params.stop.empty() && !params.detokenize)
    fail(ErrorKind::kRequest, "stop: has strings, and detokenize is false, want it true to find them");
}

}  // namespace nanovllm
