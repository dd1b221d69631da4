// Sampling (ops/sample.h): one vectorised pass for the chunks' largest logits, one for their weights; filters through a candidate
// list.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/draw.h"

namespace nanovllm::cpu {
namespace {

constexpr int64_t kGroup = 64;  // ids that are passed over together

// Larger first, ties to the lower id.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

struct Row {
  const float* logits;
  int64_t count;
  float temperature;
  int32_t top_k;
  float top_p, min_p;
  uint64_t seed;
  int32_t position, sample_index;

  float inverse_temperature() const { return 1.0f / temperature; }
  bool greedy() const { return temperature < kGreedyTemperature || top_k == 1; }
  bool cuts_k() const { return top_k > 0 && top_k < count; }
  bool cuts_p() const { return top_p < 1; }
  bool cuts_min_p() const { return min_p >= kLeastMinP; }
};

struct Chunk {
  float max;
  int32_t count;
  uint64_t sum;  // of the weights of what is kept
};

// What one thread works with, room for any row.
struct Workspace {
  Candidate* list;
  Chunk* chunks;
  float* maxima;  // of groups
};

int64_t num_groups(int64_t count) { return (count + kGroup - 1) / kGroup; }

// The top_k first candidates of a row, of those that are at most -least below the largest. The list fills to twice top_k and is cut
// back.
int64_t keep_top_k(const Kernels& kernels, const Row& row, float max, float least,
                   const Workspace& workspace) {
  const int64_t top_k = row.cuts_k() ? row.top_k : row.count, groups = num_groups(row.count);
  const int64_t room = std::min(row.count, std::max<int64_t>(2 * top_k, 256));
  const float inverse_temperature = row.inverse_temperature();
  Candidate* const list = workspace.list;
  int64_t n = 0;
  float threshold = -INFINITY;  // at this value or below a later id cannot be among the first top_k
  float bound = -INFINITY;      // that top_k ids reach
  const auto passes = [&](float logit) {
    return logit > threshold && logit >= bound && below_max(logit, max, inverse_temperature) >= least;
  };
  const auto group = [&](int64_t g) {
    return std::span(row.logits + g * kGroup, size_t(std::min(kGroup, row.count - g * kGroup)));
  };
  const auto max_of = [&](int64_t g) { return kernels.row_max(group(g).data(), int64_t(group(g).size())); };
  if (top_k <= groups) {  // as many ids reach the top_k-th of the groups' largest
    for (int64_t g = 0; g < groups; ++g) workspace.maxima[g] = max_of(g);
    std::nth_element(workspace.maxima, workspace.maxima + top_k - 1, workspace.maxima + groups,
                     std::greater<>{});
    bound = workspace.maxima[top_k - 1];
  }
  for (int64_t g = 0; g < groups; ++g) {
    if (!passes(max_of(g))) continue;
    for (const float& logit : group(g)) {
      if (!passes(logit)) continue;
      if (n == room) {
        std::nth_element(list, list + top_k - 1, list + n, before);
        n = top_k;
        threshold = list[top_k - 1].logit;
        if (!passes(logit)) continue;
      }
      list[n++] = {logit, int32_t(&logit - row.logits), 0};
    }
  }
  if (n > top_k) {
    std::nth_element(list, list + top_k - 1, list + n, before);
    n = top_k;
  }
  return n;
}

uint64_t sum_of_weights(const Candidate* begin, const Candidate* end) {
  uint64_t sum = 0;
  for (; begin != end; ++begin) sum += begin->weight;
  return sum;
}

// The first candidate at which the sum of weights reaches what is wanted: halves the list, and goes on with the half that has it.
// Reorders it.
Candidate where_sum_reaches(double wanted, Candidate* list, int64_t n) {
  int64_t begin = 0, end = n;
  for (uint64_t before_begin = 0; end - begin > 1;) {
    const int64_t middle = begin + (end - begin) / 2;
    std::nth_element(list + begin, list + middle, list + end, before);
    const uint64_t before_middle = before_begin + sum_of_weights(list + begin, list + middle);
    if (double(before_middle) >= wanted)
      end = middle;
    else
      begin = middle, before_begin = before_middle;
  }
  return list[begin];
}

// How far below the largest the last one is at most that top_p keeps of a whole row: from it on `total` − `wanted` is left at
// least, of `count` weights none of which is more than its own. The margin is far above what log_f32 and exp_f32 err by.
float least_of_top_p(double wanted, uint64_t total, int64_t count) {
  const double weight = (double(total) - wanted) / double(count);
  return weight < 1 ? -INFINITY : log_f32(float(weight * 0x1p-32)) - 1e-3f;
}

// The last candidate that the filters keep.
Candidate last_kept(const Kernels& kernels, const Row& row, float max, const Workspace& workspace) {
  if (!row.cuts_k() && !row.cuts_p() && !row.cuts_min_p())
    return {-INFINITY, std::numeric_limits<int32_t>::max(), 0};
  const float inverse_temperature = row.inverse_temperature();
  float least = row.cuts_min_p() ? log_f32(row.min_p) : -INFINITY;
  double wanted = 0;
  if (row.cuts_p() && !row.cuts_k()) {
    const uint64_t total = kernels.sum_row_weights(row.logits, row.count, max, inverse_temperature, least);
    wanted = wanted_of_top_p(row.top_p, total);
    least = std::max(least, least_of_top_p(wanted, total, row.count));
  }
  Candidate* const list = workspace.list;
  const int64_t n = keep_top_k(kernels, row, max, least, workspace);
  if (!row.cuts_p()) return *std::max_element(list, list + n, before);
  kernels.weigh(list, n, max, inverse_temperature);
  if (row.cuts_k()) wanted = wanted_of_top_p(row.top_p, sum_of_weights(list, list + n));
  return where_sum_reaches(wanted, list, n);
}

int32_t draw(const Kernels& kernels, const Row& row, float max, Candidate last, Chunk* chunks) {
  const float inverse_temperature = row.inverse_temperature();
  const auto task_of = [&](int64_t first, int64_t count, float chunk_max) {
    return WeightTask{.logits = row.logits + first,
                      .count = count,
                      .max = chunk_max,
                      .inverse_temperature = inverse_temperature,
                      .last = last.logit,
                      .last_id = int32_t(std::max<int64_t>(last.id - first, -1))};
  };
  const auto weight_of = [&](const Chunk& chunk) {
    return weight_of_chunk(chunk.sum, below_max(chunk.max, max, inverse_temperature));
  };
  const int64_t n = num_draw_chunks(row.count);
  uint64_t total = 0;
  for (int64_t c = 0; c < n; ++c) {
    Chunk& chunk = chunks[c];
    chunk.sum = chunk.max < last.logit || chunk.max == -INFINITY
                    ? 0
                    : kernels.sum_weights(task_of(c * kDrawChunk, chunk.count, chunk.max));
    total += weight_of(chunk);
  }

  const Philox4x32 bits = philox(row.seed, {uint32_t(row.position), uint32_t(row.sample_index), 0, 0});
  uint64_t left = part_of(total, bits[0], bits[1]);
  int64_t c = 0;
  for (; left >= weight_of(chunks[c]); ++c) left -= weight_of(chunks[c]);

  int64_t first = c * kDrawChunk;
  left = part_of(chunks[c].sum, bits[2], bits[3]);
  const int64_t end = first + chunks[c].count;
  const auto sum = [&](int64_t count) {
    return kernels.sum_weights(task_of(first, std::min(count, end - first), chunks[c].max));
  };
  for (uint64_t s; left >= (s = sum(kGroup)); first += kGroup) left -= s;
  for (uint64_t s; left >= (s = sum(1)); ++first) left -= s;
  return int32_t(first);
}

int32_t sample_row(const Kernels& kernels, const Row& row, const Workspace& workspace) {
  float max = -INFINITY;
  for (int64_t first = 0; first < row.count; first += kDrawChunk) {
    const int64_t count = std::min<int64_t>(kDrawChunk, row.count - first);
    Chunk& chunk = workspace.chunks[first / kDrawChunk];
    chunk = {.max = kernels.row_max(row.logits + first, count), .count = int32_t(count), .sum = 0};
    if (std::isnan(chunk.max)) return -1;
    max = std::max(max, chunk.max);
  }
  if (max == -INFINITY) return kNoTokenLeft;
  if (row.greedy()) return int32_t(std::find(row.logits, row.logits + row.count, max) - row.logits);
  return draw(kernels, row, max, last_kept(kernels, row, max, workspace), workspace.chunks);
}

}  // namespace

// A Candidate and a Chunk are four words each.
size_t sample_workspace_bytes(const StepLimits& limits) {
  return Arena::bytes_of(DType::kI32, {limits.num_threads, limits.vocab_size, 4}) +
         Arena::bytes_of(DType::kI32, {limits.num_threads, num_draw_chunks(limits.vocab_size), 4}) +
         Arena::bytes_of(DType::kF32, {limits.num_threads, num_groups(limits.vocab_size)});
}

void sample(const Kernels& kernels, Context& ctx, const SampleArgs& a) {
  const int64_t num_rows = a.logits.shape[0], count = a.num_valid_tokens;
  const int64_t num_tasks = std::min<int64_t>(num_rows, ctx.threads->num_threads());
  const Arena::Scope scope(ctx.arena);
  auto* const lists = reinterpret_cast<Candidate*>(ctx.arena.make(DType::kI32, {num_tasks, count, 4}).data);
  auto* const chunks =
      reinterpret_cast<Chunk*>(ctx.arena.make(DType::kI32, {num_tasks, num_draw_chunks(count), 4}).data);
  auto* const maxima = ctx.arena.make(DType::kF32, {num_tasks, num_groups(count)}).ptr<float>();
  ctx.threads->run(num_tasks, [&](int64_t task) {
    const Workspace workspace{lists + task * count, chunks + task * num_draw_chunks(count),
                              maxima + task * num_groups(count)};
    for (int64_t r = task; r < num_rows; r += num_tasks) {
      const int32_t* seed = a.seeds.ptr<int32_t>() + 2 * r;
      const Row row{.logits = a.logits.ptr<float>() + r * a.logits.stride[0],
                    .count = count,
                    .temperature = a.temperature.ptr<float>()[r],
                    .top_k = a.top_k.ptr<int32_t>()[r],
                    .top_p = a.top_p.ptr<float>()[r],
                    .min_p = a.min_p.ptr<float>()[r],
                    .seed = uint64_t(uint32_t(seed[1])) << 32 | uint32_t(seed[0]),
                    .position = a.positions.ptr<int32_t>()[r],
                    .sample_index = a.sample_indices.ptr<int32_t>()[r]};
      a.out.ptr<int32_t>()[r] = sample_row(kernels, row, workspace);
    }
  });
}

}  // namespace nanovllm::cpu
