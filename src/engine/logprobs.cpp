#include "engine/logprobs.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/assert.h"

namespace nanovllm {

TokenLogprobs StepLogprobs::at(size_t i, int wanted) const {
  const std::span<const int32_t> row = words.subspan(i * size_t(width(num_top)), size_t(width(num_top)));
  const auto number = [&](int at) { return std::bit_cast<float>(row[size_t(at)]); };
  TokenLogprobs result{.logprob = number(0)};
  if (wanted >= 0) {
    ASSERT(wanted <= num_top);
    for (int k = 0; k < wanted; ++k) result.top.push_back({row[size_t(3 + k)], number(3 + num_top + k)});
    return result;
  }
  const std::vector<float>& logits = all_logits[i];
  ASSERT(!logits.empty());
  for (size_t id = 0; id < logits.size(); ++id) result.top.push_back({TokenId(id), logits[id]});
  std::ranges::stable_sort(result.top, std::greater<>{}, &Logprob::logprob);  // by logit, as yet
  for (Logprob& entry : result.top) entry.logprob = (entry.logprob - number(1)) - number(2);
  return result;
}

}  // namespace nanovllm
