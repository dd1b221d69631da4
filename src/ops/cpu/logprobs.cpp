// ops/logprobs.h: a task a row.
#include "ops/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/draw.h"

namespace nanovllm::cpu {
namespace {

struct Norm {
  float max, log_sum;
};

Norm norm_of(const Kernels& kernels, const float* logits, int64_t count) {
  const float max = kernels.row_max(logits, count);
  if (!std::isfinite(max)) return {NAN, NAN};
  uint64_t total = 0;
  for (int64_t first = 0; first < count; first += kDrawChunk) {
    const int64_t n = std::min<int64_t>(kDrawChunk, count - first);
    const float chunk_max = kernels.row_max(logits + first, n);
    if (chunk_max == -INFINITY) continue;
    const uint64_t sum = kernels.sum_weights({.logits = logits + first,
                                              .count = n,
                                              .max = chunk_max,
                                              .inverse_temperature = 1,
                                              .last = -INFINITY,
                                              .last_id = std::numeric_limits<int32_t>::max()});
    total += weight_of_chunk(sum, below_max(chunk_max, max, 1));
  }
  return {max, log_of_weights(total)};
}

struct Top {
  float logit;
  int32_t id;
};

// The first num_top ids of a row, largest first. There are as many.
void find_top(const Kernels& kernels, const float* logits, int64_t count, int num_top, Top* top) {
  constexpr int64_t kGroup = 64;  // ids that are passed over together
  int n = 0;
  const auto passes = [&](float logit) { return n < num_top || (n > 0 && logit > top[n - 1].logit); };
  for (int64_t first = 0; first < count; first += kGroup) {
    const int64_t end = std::min(first + kGroup, count);
    if (!passes(kernels.row_max(logits + first, end - first))) continue;
    for (int64_t id = first; id < end; ++id) {
      if (!passes(logits[id])) continue;
      int place = n < num_top ? n++ : n - 1;
      for (; place > 0 && logits[id] > top[place - 1].logit; --place) top[place] = top[place - 1];
      top[place] = {logits[id], int32_t(id)};
    }
  }
}

}  // namespace

void top_logprobs(const Kernels& kernels, Context& ctx, const TopLogprobsArgs& a) {
  ctx.threads->run(a.rows.shape[0], [&](int64_t i) {
    const float* logits = a.logits.ptr<float>() + a.rows.ptr<int32_t>()[i] * a.logits.stride[0];
    const Norm norm = norm_of(kernels, logits, a.logits.shape[1]);
    float* norms = a.norms.ptr<float>() + i * a.norms.stride[0];
    norms[0] = norm.max, norms[1] = norm.log_sum;
    Top top[kMostTopLogprobs];
    const auto num_top = int(a.top_ids.shape[1]);
    for (int k = 0; k < num_top; ++k) top[k] = {NAN, k};
    if (std::isfinite(norm.max)) find_top(kernels, logits, a.logits.shape[1], num_top, top);
    for (int k = 0; k < num_top; ++k) {
      a.top_ids.ptr<int32_t>()[i * a.top_ids.stride[0] + k] = top[k].id;
      a.top_logprobs.ptr<float>()[i * a.top_logprobs.stride[0] + k] =
          (top[k].logit - norm.max) - norm.log_sum;
    }
  });
}

void token_logprobs(Context&, const TokenLogprobsArgs& a) {
  for (int64_t i = 0; i < a.rows.shape[0]; ++i) {
    const int32_t row = a.rows.ptr<int32_t>()[i], id = a.ids.ptr<int32_t>()[row];
    const float* norms = a.norms.ptr<float>() + i * a.norms.stride[0];
    a.out.ptr<float>()[i * a.out.stride[0]] =
        id < 0 ? NAN : (a.logits.ptr<float>()[row * a.logits.stride[0] + id] - norms[0]) - norms[1];
  }
}

}  // namespace nanovllm::cpu
