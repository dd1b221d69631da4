// Sampling (ops/sample.h) without a sort: the order "larger first, ties to the lower id" is the order of 64-bit keys.
//
// scan_kernel reads every row once, cut into parts: the largest logit and, for rows without filters, the largest x + g.
// finish_kernel merges the parts and filters where that is wanted: what the filters keep are the keys from a threshold
// on, found eight bits at a time. Keys are maxima, counts and weights integers, so no order of threads shows.
#include "base/random.h"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/sample.cuh"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 1024, kBins = 256;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct SampleParams {
  int32_t* out;
  const float* logits;
  const float *temperature, *top_p, *min_p;
  const int32_t *top_k, *seeds, *positions, *sample_indices;
  int64_t logits_stride;
  int num_valid;
};

// Larger number: larger x; -0 and 0 are equal.
__device__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float value_of(uint32_t ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered ^ 0x80000000u : ~ordered);
}

// Larger key: earlier. The upper half orders x, the lower prefers low ids. Key 0 has the value NaN.
__device__ uint64_t key_of(float x, int id) {
  return uint64_t(ordered(x)) << 32 | (0xFFFFFFFFu - uint32_t(id));
}

__device__ int id_of(uint64_t key) { return int(0xFFFFFFFFu - uint32_t(key)); }
__device__ float value_of_key(uint64_t key) { return value_of(uint32_t(key >> 32)); }

constexpr uint64_t kSick = ~uint64_t{0};  // above all keys, its value NaN: there is a NaN or +infinity

struct Larger {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

template <class Value, class Pick>
__device__ Value reduce_warp(Value value, Pick pick) {
  for (int width = 16; width > 0; width /= 2) value = pick(value, __shfl_xor_sync(kAllLanes, value, width));
  return value;
}

// By all threads of the block, a power of two of warps; pick is idempotent or there are 32.
template <class Value, class Pick>
__device__ Value reduce(Value value, Pick pick) {
  __shared__ Value partial[32];
  value = reduce_warp(value, pick);
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  return reduce_warp(partial[threadIdx.x % 32 % (blockDim.x / 32)], pick);
}

__device__ float at(const float4& four, int i) {
  return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

// The largest, NaN if one is.
__device__ float max_of(const float4& four) {
  const auto max = [](float a, float b) {
    float result;
    asm("max.NaN.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  };
  return max(max(four.x, four.y), max(four.z, four.w));
}

struct Row {
  const float* logits;
  int count;
  float temperature;
  int32_t top_k;
  float top_p, min_p;
  uint64_t seed;
  uint32_t position, sample_index;

  __device__ Row(const SampleParams& p, int64_t r)
      : logits(p.logits + r * p.logits_stride),
        count(p.num_valid),
        temperature(p.temperature[r]),
        top_k(p.top_k[r]),
        top_p(p.top_p[r]),
        min_p(p.min_p[r]),
        seed(uint64_t(uint32_t(p.seeds[2 * r + 1])) << 32 | uint32_t(p.seeds[2 * r])),
        position(uint32_t(p.positions[r])),
        sample_index(uint32_t(p.sample_indices[r])) {}

  __device__ bool greedy() const { return temperature < kGreedyTemperature || top_k == 1; }
  __device__ bool cuts_k() const { return top_k > 0 && top_k < count; }
  __device__ bool cuts_p() const { return top_p < 1; }
  __device__ bool cuts_min_p() const { return min_p >= kLeastMinP; }
  __device__ bool filtered() const { return cuts_k() || cuts_p() || cuts_min_p(); }
  __device__ bool aligned() const { return reinterpret_cast<uint64_t>(logits) % sizeof(float4) == 0; }
  __device__ int num_fours() const { return (count + 3) / 4; }

  // Logits 4 i to 4 i + 3; -infinity from the end on.
  __device__ float4 four(int i) const {
    if (aligned() && 4 * i + 3 < count) return reinterpret_cast<const float4*>(logits)[i];
    const auto logit = [&](int id) { return id < count ? logits[id] : -INFINITY; };
    return {logit(4 * i), logit(4 * i + 1), logit(4 * i + 2), logit(4 * i + 3)};
  }
  __device__ Philox4x32 bits(int i) const { return philox(seed, {uint32_t(i), position, sample_index, 0}); }
  __device__ float x(float logit) const { return logit / temperature; }

  // body(four(i), i) for i in [begin, end), this thread's in rising order, then -infinity for some i from end on. new_batch()
  // is called behind each batch of loads.
  template <class NewBatch, class Body>
  __device__ void for_each_four(int begin, int end, NewBatch&& new_batch, Body&& body) const {
    constexpr int kBatch = 4;
    const int step = int(blockDim.x), end_of_whole = aligned() ? min(end, count / 4) : 0;
    for (int first = begin + int(threadIdx.x); first < end; first += kBatch * step) {
      float4 fours[kBatch];
      if (first + (kBatch - 1) * step < end_of_whole) {
#pragma unroll
        for (int j = 0; j < kBatch; ++j) fours[j] = reinterpret_cast<const float4*>(logits)[first + j * step];
      } else {
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int i = first + j * step;
          fours[j] = i < end ? four(i) : float4{-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        }
      }
      new_batch();
#pragma unroll
      for (int j = 0; j < kBatch; ++j) body(fours[j], first + j * step);
    }
  }
  // body(x, id) of the whole row, without those of -infinity.
  template <class Body>
  __device__ void for_each_x(Body&& body) const {
    for_each_four(
        0, num_fours(), [] {},
        [&](const float4& logits, int i) {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if (const float value = x(at(logits, j)); value != -INFINITY) body(value, 4 * i + j);
        });
  }
};

// A thread's largest logit; of equal ones the first.
struct LargestLogit {
  float value = -INFINITY;
  int four = -1;
  bool sick = false;

  __device__ void add(float max_of_four, int i) {  // i rises
    sick |= !(max_of_four < INFINITY);
    if (max_of_four > value) value = max_of_four, four = i;
  }
  __device__ uint64_t key(const Row& row) const {
    if (sick) return kSick;
    if (four < 0) return 0;
    const float4 logits = row.four(four);
    int i = 0;
    while (i < 3 && at(logits, i) != value) ++i;
    return key_of(value, 4 * four + i);
  }
};

// A floor (sample.cuh) that rises: of the block, and of the row where its blocks share one.
struct Floor {
  uint32_t* block;  // ordered(), in shared memory
  uint32_t* row;    // ordered(), or null

  __device__ void raise(uint32_t value) const {
    atomicMax(block, value);
    if (row) atomicMax(row, value);
  }
  __device__ float value() const {
    const uint32_t of_block = *static_cast<volatile uint32_t*>(block);
    return value_of(row ? max(of_block, __ldcg(row)) : of_block);
  }
};

// The key of this thread's largest x + g in [begin, end), if it can be the row's. At first the floor is the largest of one
// promising id a thread.
__device__ uint64_t draw(const Row& row, int begin, int end, uint32_t* row_floor, LargestLogit& largest) {
  __shared__ uint32_t block_floor;
  const Floor floor{&block_floor, row_floor};
  if (threadIdx.x == 0) block_floor = ordered(-INFINITY);
  __syncthreads();
  const bool prunes = Pruning::works_at(row.temperature);
  const float scale = Pruning::scale_of(row.temperature);
  if (prunes) {
    float logit = -INFINITY, promise = -INFINITY;
    uint32_t bits = 0;
    if (const int i = begin + int(threadIdx.x); i < end) {
      const float4 logits = row.four(i);
      const Philox4x32 four_bits = row.bits(i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float guess = at(logits, j) * scale - __log2f(float(four_bits[size_t(j)]));
        if (guess > promise) promise = guess, logit = at(logits, j), bits = four_bits[size_t(j)];
      }
    }
    const uint32_t warp_floor = __reduce_max_sync(kAllLanes, ordered(row.x(logit) + gumbel_f32(bits)));
    if (threadIdx.x % 32 == 0) floor.raise(warp_floor);
  }
  __syncthreads();

  uint64_t best = 0;
  float offset = 0;
  const auto look_at_floor = [&] { offset = Pruning::offset_of(floor.value()); };
  row.for_each_four(begin, end, look_at_floor, [&](float4 logits, int i) {
    const float max = max_of(logits);
    largest.add(max, i);
    const float exponent = Pruning::exponent(max, scale, offset);
    if (Pruning::loses_with_any_bits(exponent)) return;
    const Philox4x32 random = row.bits(i);
    uint4 bits{random[0], random[1], random[2], random[3]};
    if (Pruning::loses(min(min(bits.x, bits.y), min(bits.z, bits.w)), exponent)) return;
#pragma unroll 1
    for (int id = 4 * i; id < 4 * i + 4; ++id) {
      // Always .x: one copy of the code for the few that come here.
      const float logit = logits.x;
      const uint32_t its_bits = bits.x;
      logits = {logits.y, logits.z, logits.w, 0};
      bits = {bits.y, bits.z, bits.w, 0};
      if (Pruning::loses(its_bits, Pruning::exponent(logit, scale, offset))) continue;
      const float x = row.x(logit);
      if (x == -INFINITY) continue;
      const uint64_t key = key_of(x + gumbel_f32(its_bits), id);
      if (key <= best) continue;
      best = key;
      if (prunes) floor.raise(uint32_t(key >> 32));
    }
  });
  return best;
}

// Grid: 256 floors a block.
__global__ void clear_floors_kernel(uint32_t* row_floors, int num_rows) {
  start_early();
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r < num_rows) row_floors[r] = 0;  // below all
}

// Grid: (num_rows, num_parts). A thread reads four logits at a time, four such loads in flight. Bound by reading the logits, with
// a draw by Philox as well (about 100 instructions for four ids).
__global__ void __launch_bounds__(kPartThreads, 4)
    scan_kernel(SampleParams p, SamplePart* parts, uint32_t* row_floors) {
  start_early();
  const Row row(p, blockIdx.x);
  const int each = (row.num_fours() + int(gridDim.y) - 1) / int(gridDim.y);
  const int begin = int(blockIdx.y) * each, end = min(begin + each, row.num_fours());
  LargestLogit largest;
  uint64_t best = 0;
  if (row.greedy() || row.filtered())
    row.for_each_four(
        begin, end, [] {}, [&](const float4& logits, int i) { largest.add(max_of(logits), i); });
  else
    best = draw(row, begin, end, row_floors ? row_floors + blockIdx.x : nullptr, largest);
  const uint64_t first = reduce(largest.key(row), Larger{});
  best = reduce(best, Larger{});
  if (threadIdx.x == 0) parts[int64_t(blockIdx.x) * gridDim.y + blockIdx.y] = {first, best};
}

// The threshold key: with amount(x) of every key >= lowest, the largest key such that the amounts from it on reach
// `wanted` > 0; 0 if all together do not. Amounts are below 2^53 together, so wherever they first reach `wanted` one is
// not zero, and those of zero need not be looked at.
template <class Amount>
__device__ uint64_t find_threshold(const Row& row, uint64_t lowest, double wanted, Amount amount) {
  __shared__ uint32_t low[kBins], high[kBins],
      counts[kBins];  // 32-bit halves: shared memory adds these by itself
  __shared__ uint64_t prefix, above;
  __shared__ uint32_t num_inside;  // keys that begin with prefix
  if (threadIdx.x == 0) prefix = 0, above = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < kBins) low[threadIdx.x] = high[threadIdx.x] = counts[threadIdx.x] = 0;
    __syncthreads();
    row.for_each_x([&](float x, int id) {
      const uint64_t key = key_of(x, id);
      if (key < lowest || (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8))) return;
      const uint64_t added = amount(x);
      if (added == 0) return;
      const int bin = int(key >> shift & 0xFF);
      const uint32_t half = uint32_t(added), before = atomicAdd(&low[bin], half);
      const uint32_t carry = uint32_t(added >> 32) + (before + half < before ? 1 : 0);
      if (carry > 0) atomicAdd(&high[bin], carry);
      atomicAdd(&counts[bin], 1u);
    });
    __syncthreads();
    if (threadIdx.x < 32) {  // a lane has eight bins, the first lane the highest
      const auto sum_of = [&](int bin) { return uint64_t(high[bin]) << 32 | low[bin]; };
      const int lane = int(threadIdx.x), top = kBins - 1 - 8 * lane;
      uint64_t sum = 0;
      for (int bin = top; bin > top - 8; --bin) sum += sum_of(bin);
      uint64_t running = sum;
      for (int distance = 1; distance < 32; distance *= 2) {
        const uint64_t other = __shfl_up_sync(kAllLanes, running, unsigned(distance));
        if (lane >= distance) running += other;
      }
      running += above - sum;  // of all bins above this lane's
      int bin = top;
      while (bin > top - 8 && double(running + sum_of(bin)) < wanted) running += sum_of(bin--);
      const unsigned reached = __ballot_sync(kAllLanes, bin > top - 8);
      if (lane == 0 && reached == 0) num_inside = 0;
      if (reached != 0 && lane == __ffs(int(reached)) - 1) {
        prefix |= uint64_t(bin) << shift;
        above = running;
        num_inside = counts[bin];
      }
    }
    __syncthreads();
    if (num_inside == 0) return 0;  // only in the first round: later ones look inside a bin that reaches it
    if (num_inside > 1 || shift == 0) continue;
    const uint64_t found = prefix;
    __syncthreads();
    row.for_each_x([&](float x, int id) {
      const uint64_t key = key_of(x, id);
      if (key >= lowest && key >> shift == found >> shift && amount(x) > 0) prefix = key;
    });
    __syncthreads();
    break;
  }
  return prefix;
}

// What the filters of a row leave: keys from this one on.
__device__ uint64_t lowest_kept(const Row& row, float max_x) {
  // All ids of the least x are kept, too.
  uint64_t lowest = row.cuts_min_p() ? uint64_t(ordered(max_x + log_f32(row.min_p))) << 32 : 0;
  if (row.cuts_k()) {
    const uint64_t of_k = find_threshold(row, lowest, double(row.top_k), [](float) { return uint64_t{1}; });
    lowest = of_k > lowest ? of_k : lowest;
  }
  if (!row.cuts_p()) return lowest;
  const auto weight = [&](float x) {  // 2^32 e^-22.5 < 0.8
    const float below = x - max_x;
    return below < -22.5f ? 0 : uint64_t(double(exp_f32(below)) * 0x1p32);
  };
  uint64_t total = 0;
  row.for_each_x([&](float x, int id) {
    if (key_of(x, id) >= lowest) total += weight(x);
  });
  total = reduce(total, [](uint64_t a, uint64_t b) { return a + b; });
  const uint64_t threshold = find_threshold(row, lowest, double(row.top_p) * double(total), weight);
  return threshold > lowest ? threshold : lowest;
}

// Grid: one block per row. Rows without filters read their parts only, others the logits once more, and up to ten times for
// each filter.
__global__ void __launch_bounds__(kThreads)
    finish_kernel(SampleParams p, const SamplePart* parts, int num_parts) {
  start_early();
  const Row row(p, blockIdx.x);
  const int lane = int(threadIdx.x % 32);
  const SamplePart part = lane < num_parts ? parts[int64_t(blockIdx.x) * num_parts + lane] : SamplePart{0, 0};
  const uint64_t first = reduce_warp(part.first, Larger{});
  uint64_t best = reduce_warp(part.best, Larger{});
  const float max = value_of_key(first);
  const bool greedy = row.greedy();
  if (!isfinite(max) || (!greedy && !isfinite(row.x(max)))) {
    if (threadIdx.x == 0) p.out[blockIdx.x] = -1;
    return;
  }
  if (greedy || !row.filtered()) {
    if (threadIdx.x == 0) p.out[blockIdx.x] = id_of(greedy ? first : best);
    return;
  }

  const uint64_t lowest = lowest_kept(row, row.x(max));
  best = 0;
  row.for_each_four(
      0, row.num_fours(), [] {},
      [&](const float4& logits, int i) {
        const auto kept = [&](int j) {
          const float x = row.x(at(logits, j));
          return x != -INFINITY && key_of(x, 4 * i + j) >= lowest;
        };
        if (!kept(0) && !kept(1) && !kept(2) && !kept(3)) return;
        const Philox4x32 bits = row.bits(i);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (!kept(j)) continue;
          const uint64_t key = key_of(row.x(at(logits, j)) + gumbel_f32(bits[size_t(j)]), 4 * i + j);
          best = best > key ? best : key;
        }
      });
  best = reduce(best, Larger{});
  if (threadIdx.x == 0) p.out[blockIdx.x] = id_of(best);
}

}  // namespace

void sample(Context& ctx, const SampleArgs& a) {
  const int64_t num_rows = a.logits.shape[0];
  if (num_rows == 0) return;
  const SampleParams params{.out = a.out.ptr<int32_t>(),
                            .logits = a.logits.ptr<float>(),
                            .temperature = a.temperature.ptr<float>(),
                            .top_p = a.top_p.ptr<float>(),
                            .min_p = a.min_p.ptr<float>(),
                            .top_k = a.top_k.ptr<int32_t>(),
                            .seeds = a.seeds.ptr<int32_t>(),
                            .positions = a.positions.ptr<int32_t>(),
                            .sample_indices = a.sample_indices.ptr<int32_t>(),
                            .logits_stride = a.logits.stride[0],
                            .num_valid = int(a.num_valid_tokens)};
  const Arena::Scope scope(ctx.arena);
  const int num_parts = num_sample_parts(num_rows, a.num_valid_tokens);
  auto* const parts = static_cast<SamplePart*>(make_sample_parts(ctx.arena, num_rows, num_parts).data);
  uint32_t* row_floors = nullptr;
  if (sample_parts_share_floors(num_parts)) {
    const Tensor floors = make_row_floors(ctx.arena, num_rows);
    row_floors = static_cast<uint32_t*>(floors.data);
    launch_early(ctx, clear_floors_kernel, blocks_for(num_rows, 256), 256, 0, row_floors, int(num_rows));
  }
  const dim3 grid{unsigned(num_rows), unsigned(num_parts)};
  launch_early(ctx, scan_kernel, grid, kPartThreads, 0, params, parts, row_floors);
  launch_early(ctx, finish_kernel, unsigned(num_rows), kThreads, 0, params, parts, num_parts);
  check_launch("sample");
}

}  // namespace nanovllm::cuda
