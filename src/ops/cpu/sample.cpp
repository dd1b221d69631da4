// Sampling (ops/sample.h): greedy and unfiltered rows in one vectorised scan, filtered ones through a
// candidate list.
#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/scalar_math.h"

namespace nanovllm::cpu {
namespace {

struct Candidate {
  float x;  // logit / temperature
  int32_t id;
};

// Larger first, ties to the lower id.
bool before(const Candidate& a, const Candidate& b) { return a.x > b.x || (a.x == b.x && a.id < b.id); }
// For std heaps, which keep the "largest" on top.
bool after(const Candidate& a, const Candidate& b) { return before(b, a); }

// The top_k first candidates of a row, of those with x >= least. `list` has room for every id; it fills to twice top_k and is cut
// back.
int64_t keep_top_k(const SampleRow& row, int64_t top_k, float least, Candidate* list) {
  const int64_t room = std::min(row.count, std::max<int64_t>(2 * top_k, 256));
  int64_t n = 0;
  float threshold = -INFINITY;  // at this value or below a later id cannot be among the first top_k
  for (int64_t id = 0; id < row.count; ++id) {
    const float x = row.logits[id] / row.temperature;
    if (!(x > threshold) || x < least) continue;
    if (n == room) {
      std::nth_element(list, list + top_k - 1, list + n, before);
      n = top_k;
      threshold = list[top_k - 1].x;
      if (!(x > threshold)) continue;
    }
    list[n++] = {x, int32_t(id)};
  }
  if (n > top_k) {
    std::nth_element(list, list + top_k - 1, list + n, before);
    n = top_k;
  }
  return n;
}

// Reorders the list so that the candidates that top_p keeps come last, and returns how many there are.
int64_t keep_top_p(Candidate* list, int64_t n, float top_p) {
  float max = -INFINITY;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, list[i].x);
  const auto weight = [&](const Candidate& c) { return uint64_t(double(exp_f32(c.x - max)) * 0x1p32); };
  uint64_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += weight(list[i]);
  const double wanted = double(top_p) * double(total);
  std::make_heap(list, list + n, after);
  uint64_t sum = 0;
  int64_t kept = 0;
  while (kept < n) {
    std::pop_heap(list, list + n - kept, after);
    sum += weight(list[n - 1 - kept]);
    ++kept;
    if (double(sum) >= wanted) break;
  }
  return kept;
}

int32_t draw(const SampleRow& row, const Candidate* list, int64_t n) {
  Candidate best{-INFINITY, 0};
  for (int64_t i = 0; i < n; ++i) {
    const Philox4x32 bits =
        philox(row.seed, {uint32_t(list[i].id) / 4, uint32_t(row.position), uint32_t(row.sample_index), 0});
    const Candidate c{list[i].x + gumbel_f32(bits[size_t(list[i].id) % 4]), list[i].id};
    if (i == 0 || before(c, best)) best = c;
  }
  return best.id;
}

struct Filters {
  int32_t top_k;
  float top_p, min_p;
};

int32_t sample_row(const Kernels& kernels, const SampleRow& row, const Filters& filters, Candidate* list) {
  const float max = kernels.row_max(row.logits, row.count);
  if (!std::isfinite(max)) return -1;
  if (row.temperature < kGreedyTemperature || filters.top_k == 1)
    return int32_t(std::find(row.logits, row.logits + row.count, max) - row.logits);
  if (!std::isfinite(max / row.temperature)) return -1;
  const bool cut_k = filters.top_k > 0 && filters.top_k < row.count, cut_p = filters.top_p < 1,
             cut_min_p = filters.min_p >= kLeastMinP;
  if (!cut_k && !cut_p && !cut_min_p) return kernels.gumbel_argmax(row);
  const float least = cut_min_p ? max / row.temperature + log_f32(filters.min_p) : -INFINITY;
  const int64_t n = keep_top_k(row, cut_k ? filters.top_k : row.count, least, list);
  if (!cut_p) return draw(row, list, n);
  const int64_t kept = keep_top_p(list, n, filters.top_p);
  return draw(row, list + n - kept, kept);
}

}  // namespace

void sample(const Kernels& kernels, Context& ctx, const SampleArgs& a) {
  const int64_t num_rows = a.logits.shape[0];
  const int64_t num_tasks = std::min<int64_t>(num_rows, ctx.threads->num_threads());
  const Arena::Scope scope(ctx.arena);
  // One candidate list a task; a Candidate is two words.
  Candidate* lists =
      reinterpret_cast<Candidate*>(ctx.arena.make(DType::kI32, {num_tasks, a.num_valid_tokens, 2}).data);
  ctx.threads->run(num_tasks, [&](int64_t task) {
    for (int64_t r = task; r < num_rows; r += num_tasks) {
      const int32_t* seed = a.seeds.ptr<int32_t>() + 2 * r;
      const SampleRow row{.logits = a.logits.ptr<float>() + r * a.logits.stride[0],
                          .count = a.num_valid_tokens,
                          .temperature = a.temperature.ptr<float>()[r],
                          .seed = uint64_t(uint32_t(seed[1])) << 32 | uint32_t(seed[0]),
                          .position = a.positions.ptr<int32_t>()[r],
                          .sample_index = a.sample_indices.ptr<int32_t>()[r]};
      const Filters filters{a.top_k.ptr<int32_t>()[r], a.top_p.ptr<float>()[r], a.min_p.ptr<float>()[r]};
      a.out.ptr<int32_t>()[r] = sample_row(kernels, row, filters, lists + task * a.num_valid_tokens);
    }
  });
}

}  // namespace nanovllm::cpu
