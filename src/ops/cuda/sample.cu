// Sampling (ops/sample.h), a thread block a row, without a sort: the order "larger first, ties to the lower id" is the order
// of 64-bit keys, and what top_k and top_p keep are the keys from a threshold on, found eight bits at a time. Counts and
// weights are integers, so no order of threads shows.
#include "base/random.h"
#include "ops/cuda/kernels.cuh"
#include "ops/scalar_math.h"

namespace nanovllm::cuda {
namespace {

constexpr int kThreads = 1024, kBins = 256;

struct SampleParams {
  int32_t* out;
  const float* logits;
  const float *temperature, *top_p;
  const int32_t *top_k, *seeds, *positions, *sample_indices;
  int64_t logits_stride;
  int num_valid;
};

// Larger key: earlier. The upper half orders x, the lower prefers low ids.
__device__ uint64_t key_of(float x, int id) {
  const uint32_t bits = __float_as_uint(x + 0.0f);  // -0 and 0 are equal
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | (0xFFFFFFFFu - uint32_t(id));
}

__device__ int id_of(uint64_t key) { return int(0xFFFFFFFFu - uint32_t(key)); }

template <class Value, class Pick>
__device__ Value reduce(Value value, Pick pick) {
  __shared__ Value partial[32];
  for (int width = 16; width > 0; width /= 2) value = pick(value, __shfl_xor_sync(0xffffffffu, value, width));
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[threadIdx.x % 32];
  for (int width = 16; width > 0; width /= 2) value = pick(value, __shfl_xor_sync(0xffffffffu, value, width));
  return value;
}

struct Row {
  const float* logits;
  int count;
  float temperature;

  __device__ float x(int id) const { return logits[id] / temperature; }

  // body(logit, id) for every id that is this thread's, four at a time where they lie so.
  template <class Body>
  __device__ void for_each(Body&& body) const {
    const int num_fours = reinterpret_cast<uint64_t>(logits) % sizeof(float4) == 0 ? count / 4 : 0;
    const float4* fours = reinterpret_cast<const float4*>(logits);
#pragma unroll 4
    for (int i = threadIdx.x; i < num_fours; i += kThreads) {
      const float4 four = fours[i];
      body(four.x, 4 * i);
      body(four.y, 4 * i + 1);
      body(four.z, 4 * i + 2);
      body(four.w, 4 * i + 3);
    }
    for (int id = 4 * num_fours + int(threadIdx.x); id < count; id += kThreads) body(logits[id], id);
  }
};

// The threshold key: with amount(key, x) of every key >= lowest, the largest key such that the amounts from it on reach
// `wanted`; 0 if all together do not.
template <class Amount>
__device__ uint64_t find_threshold(const Row& row, uint64_t lowest, double wanted, Amount amount) {
  __shared__ unsigned long long amounts[kBins];
  __shared__ unsigned int counts[kBins];
  __shared__ uint64_t prefix;
  __shared__ unsigned long long above;
  __shared__ bool found;
  if (threadIdx.x == 0) prefix = 0, above = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < kBins) amounts[threadIdx.x] = counts[threadIdx.x] = 0;
    __syncthreads();
    for (int id = threadIdx.x; id < row.count; id += kThreads) {
      const float x = row.x(id);
      const uint64_t key = key_of(x, id);
      if (x == -INFINITY || key < lowest || (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8)))
        continue;
      atomicAdd(&amounts[key >> shift & 0xFF], (unsigned long long)amount(x));
      atomicAdd(&counts[key >> shift & 0xFF], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      found = false;
      for (int bin = kBins - 1; bin >= 0 && !found; --bin) {
        if (counts[bin] == 0) continue;
        if (double(above + amounts[bin]) >= wanted) {
          prefix |= uint64_t(bin) << shift;
          found = true;
        } else {
          above += amounts[bin];
        }
      }
    }
    __syncthreads();
    if (!found) return 0;  // only in the first round: later ones look inside a bin that reaches it
  }
  return prefix;
}

__global__ void sample_kernel(SampleParams p) {
  const int64_t r = blockIdx.x;
  const Row row{p.logits + r * p.logits_stride, p.num_valid, p.temperature[r]};
  const int top_k = p.top_k[r];
  const float top_p = p.top_p[r];

  uint64_t first_key = 0;  // of the largest
  int bad = 0;
  row.for_each([&](float logit, int id) {
    bad |= !(logit < INFINITY);  // NaN and +infinity
    const uint64_t key = key_of(logit, id);
    first_key = first_key > key ? first_key : key;
  });
  first_key = reduce(first_key, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  bad = reduce(bad, [](int a, int b) { return a | b; });
  const int first = id_of(first_key);
  const float max = bad ? INFINITY : row.logits[first];
  const bool greedy = row.temperature < kGreedyTemperature || top_k == 1;
  if (!isfinite(max) || (!greedy && !isfinite(max / row.temperature))) {
    if (threadIdx.x == 0) p.out[r] = -1;
    return;
  }
  if (greedy) {
    if (threadIdx.x == 0) p.out[r] = first;
    return;
  }

  uint64_t lowest = 0;
  if (top_k > 0 && top_k < row.count)
    lowest = find_threshold(row, 0, double(top_k), [](float) { return uint64_t(1); });
  if (top_p < 1) {
    const float max_x = max / row.temperature;
    const auto weight = [&](float x) { return uint64_t(double(exp_f32(x - max_x)) * 0x1p32); };
    unsigned long long total = 0;
    for (int id = threadIdx.x; id < row.count; id += kThreads) {
      const float x = row.x(id);
      if (x != -INFINITY && key_of(x, id) >= lowest) total += weight(x);
    }
    total = reduce(total, [](unsigned long long a, unsigned long long b) { return a + b; });
    const uint64_t threshold = find_threshold(row, lowest, double(top_p) * double(total), weight);
    lowest = threshold > lowest ? threshold : lowest;
  }

  const uint64_t seed = uint64_t(uint32_t(p.seeds[2 * r + 1])) << 32 | uint32_t(p.seeds[2 * r]);
  uint64_t best = 0;
  for (int first = 4 * int(threadIdx.x); first < row.count; first += 4 * kThreads) {
    const Philox4x32 bits =
        philox(seed, {uint32_t(first) / 4, uint32_t(p.positions[r]), uint32_t(p.sample_indices[r]), 0});
    for (int i = 0; i < 4 && first + i < row.count; ++i) {
      const float x = row.x(first + i);
      if (x == -INFINITY || key_of(x, first + i) < lowest) continue;
      const uint64_t key = key_of(x + gumbel_f32(bits[size_t(i)]), first + i);
      best = best > key ? best : key;
    }
  }
  best = reduce(best, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  if (threadIdx.x == 0) p.out[r] = id_of(best);
}

}  // namespace

void sample(Context& ctx, const SampleArgs& a) {
  if (a.logits.shape[0] == 0) return;
  sample_kernel<<<unsigned(a.logits.shape[0]), kThreads, 0, stream_of(ctx)>>>(
      {.out = a.out.ptr<int32_t>(),
       .logits = a.logits.ptr<float>(),
       .temperature = a.temperature.ptr<float>(),
       .top_p = a.top_p.ptr<float>(),
       .top_k = a.top_k.ptr<int32_t>(),
       .seeds = a.seeds.ptr<int32_t>(),
       .positions = a.positions.ptr<int32_t>(),
       .sample_indices = a.sample_indices.ptr<int32_t>(),
       .logits_stride = a.logits.stride[0],
       .num_valid = int(a.num_valid_tokens)});
  check_launch("sample");
}

}  // namespace nanovllm::cuda
