// The kernels, once, over a vector type V of 16 lanes (vec_portable.h says what V does).
//
// Only for the kernels_<set>.cpp files. Everything here is a template on V or has internal linkage, and
// nothing inline from the standard library is called: code compiled for a newer processor must never be
// linked in for an older one.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/draw.h"
#include "ops/scalar_math.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace nanovllm::cpu {

static inline void prefetch(const std::byte* p) {
#if defined(__x86_64__)
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
#else
  __builtin_prefetch(p, 0, 2);
#endif
}

// Lanes i and i + 8, then i and i + 4, i and i + 2, 0 and 1: the fixed tree of ops/rms_norm.h.
template <class V>
float sum_of_lanes(V v) {
  float lane[16];
  v.store(lane);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

// ---- linear: memory bound for few rows (weights are read once), else bound by fused multiply-adds ----

template <class V, DType kDType>
void load_line(const std::byte* p, V& low, V& high) {
  if constexpr (kDType == DType::kBF16) {
    V::load_bf16_line(p, low, high);
  } else if constexpr (kDType == DType::kF16) {
    low = V::load_f16(p);
    high = V::load_f16(p + 32);
  } else {
    low = V::load(reinterpret_cast<const float*>(p));
    high = V::load(reinterpret_cast<const float*>(p) + 16);
  }
}

// kRows tokens x kPanels panels: 2 kRows kPanels accumulators, one fused multiply-add each for every k.
template <class V, DType kDType, int kRows, int kPanels>
void linear_tile(const LinearTask& t, int64_t panel, int64_t row) {
  constexpr int64_t kLine = kDType == DType::kF32 ? 128 : 64;  // bytes
  constexpr int64_t kAhead = 8192;  // bytes: hides memory, and stays in the level-2 cache
  const std::byte* w[kPanels];
  V acc[kRows][kPanels][2];
  for (int p = 0; p < kPanels; ++p) w[p] = t.panels + (panel + p) * t.panel_stride;
  for (int r = 0; r < kRows; ++r)
    for (int p = 0; p < kPanels; ++p) acc[r][p][0] = acc[r][p][1] = V::zero();
  const float* x = t.x + row * t.x_stride;
  for (int64_t k = 0; k < t.k; ++k) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      V low, high;
      load_line<V, kDType>(w[p], low, high);
      prefetch(w[p] + kAhead);
      if constexpr (kLine == 128) prefetch(w[p] + kAhead + 64);
      w[p] += kLine;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V xr = V::broadcast(x[r * t.x_stride + k]);
        acc[r][p][0] = V::fma(xr, low, acc[r][p][0]);
        acc[r][p][1] = V::fma(xr, high, acc[r][p][1]);
      }
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    const int64_t first = (panel + p) * 32;
    for (int half = 0; half < 2; ++half) {
      const int64_t column = first + 16 * half;
      const int64_t left = t.num_outputs - column;
      if (left <= 0) break;
      const int n = left < 16 ? int(left) : 16;
      const V bias = t.bias ? V::load_first(t.bias + column, n) : V::zero();
      for (int r = 0; r < kRows; ++r) {
        const V sum = t.bias ? acc[r][p][half] + bias : acc[r][p][half];
        sum.store_first(t.out + (row + r) * t.out_stride + column, n);
      }
    }
  }
}

// All panels for `rows` tokens from `row` on. kRows counts down to the number wanted.
template <class V, DType kDType, int kRows>
void linear_rows(const LinearTask& t, int64_t num_panels, int64_t row, int rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return linear_rows<V, kDType, kRows - 1>(t, num_panels, row, rows);
  }
  constexpr int kPanels = kRows == 1 ? 2 : 1;  // two chains more to hide the latency of a lone row's
  int64_t panel = 0;
  for (; panel + kPanels <= num_panels; panel += kPanels)
    linear_tile<V, kDType, kRows, kPanels>(t, panel, row);
  for (; panel < num_panels; ++panel) linear_tile<V, kDType, kRows, 1>(t, panel, row);
}

template <class V, DType kDType>
void linear_of_dtype(const LinearTask& t) {
  constexpr int kRows = V::kLinearRows;
  const int64_t num_panels = (t.num_outputs + 31) / 32;
  // Tiles of nearly equal height: 13 rows are 7 + 6, not 12 + 1.
  const int64_t num_tiles = (t.num_rows + kRows - 1) / kRows;
  int64_t row = 0;
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    const int rows = int((t.num_rows - row + num_tiles - tile - 1) / (num_tiles - tile));
    linear_rows<V, kDType, kRows>(t, num_panels, row, rows);
    row += rows;
  }
}

template <class V>
void linear_kernel(const LinearTask& t) {
  switch (t.dtype) {
    case DType::kBF16:
      return linear_of_dtype<V, DType::kBF16>(t);
    case DType::kF16:
      return linear_of_dtype<V, DType::kF16>(t);
    default:
      return linear_of_dtype<V, DType::kF32>(t);
  }
}

// ---- attention: the definition of ops/attention.h, for kRows rows that share a pass over keys and values
// ----

inline constexpr int kChunk = 128;  // keys
inline constexpr int kChunkGroups = kChunk / 16;
inline constexpr int kMaxHeadDim = 256;

template <class V, int kRows>
struct AttentionState {
  float scores[kRows][kChunk];  // then probabilities
  float chunk_out[kRows][kMaxHeadDim];
  float out[kRows][kMaxHeadDim];
  float max[kRows], sum[kRows];
  float chunk_max[kRows], chunk_sum[kRows];
};

static inline const float* key_group(const AttentionTask& t, int64_t group) {
  const int64_t block = t.block_table[group / t.groups_per_block];
  return t.k + block * t.k_block_stride + group % t.groups_per_block * t.k_group_stride;
}

static inline const float* value_row(const AttentionTask& t, int64_t group) {
  const int64_t block = t.block_table[group / t.groups_per_block];
  return t.v + block * t.v_block_stride + group % t.groups_per_block * 16 * t.v_row_stride;
}

// Scores of kGroups groups of 16 keys, lane = key: one chain over head_dim each.
template <class V, int kRows, int kGroups>
void attention_scores(const AttentionTask& t, int64_t first_group, int chunk_group,
                      AttentionState<V, kRows>& state) {
  const float* k[kGroups];
  V acc[kRows][kGroups];
  for (int g = 0; g < kGroups; ++g) k[g] = key_group(t, first_group + chunk_group + g);
  for (int r = 0; r < kRows; ++r)
    for (int g = 0; g < kGroups; ++g) acc[r][g] = V::zero();
  for (int d = 0; d < t.head_dim; ++d) {
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const V keys = V::load(k[g] + d * 16);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc[r][g] = V::fma(V::broadcast(t.q[r][d]), keys, acc[r][g]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int g = 0; g < kGroups; ++g) acc[r][g].store(state.scores[r] + (chunk_group + g) * 16);
}

// One row's maximum, exponentials and their sum over its first n keys of the chunk; zeros after them.
template <class V, int kRows>
void attention_softmax(const AttentionTask& t, int row, int n, AttentionState<V, kRows>& state) {
  float* s = state.scores[row];
  float max = s[0];
  for (int i = 1; i < n; ++i) max = s[i] > max ? s[i] : max;
  const int padded = (n + 15) / 16 * 16;
  for (int i = n; i < padded; ++i)
    s[i] = max;  // finite wherever the row is; their weight is set to zero below
  for (int i = 0; i < padded; ++i) s[i] = exp_f32((s[i] - max) * t.scale);
  for (int i = n; i < padded; ++i) s[i] = 0;
  V sum = V::load(s);
  for (int i = 16; i < padded; i += 16) sum = sum + V::load(s + i);
  state.chunk_max[row] = max;
  state.chunk_sum[row] = sum_of_lanes(sum);
}

// chunk_out[r][16 (vec … vec + kVecs)] = chain over the chunk's first n keys, which every row sees, of p · v.
template <class V, int kRows, int kVecs>
void attention_values(const AttentionTask& t, int64_t first_group, int n, int vec,
                      AttentionState<V, kRows>& state) {
  V acc[kRows][kVecs];
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kVecs; ++j) acc[r][j] = V::zero();
  for (int key = 0; key < n; ++key) {
    const float* v = value_row(t, first_group + key / 16) + key % 16 * t.v_row_stride + vec * 16;
    V values[kVecs];
    for (int j = 0; j < kVecs; ++j) values[j] = V::load(v + j * 16);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V p = V::broadcast(state.scores[r][key]);
      for (int j = 0; j < kVecs; ++j) acc[r][j] = V::fma(p, values[j], acc[r][j]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int j = 0; j < kVecs; ++j) acc[r][j].store(state.chunk_out[r] + (vec + j) * 16);
}

// The chains of one row go on over keys [begin, end): the causal edge, which this row sees and another does
// not.
template <class V, int kRows>
void attention_values_edge(const AttentionTask& t, int64_t first_group, int row, int begin, int end,
                           AttentionState<V, kRows>& state) {
  float* out = state.chunk_out[row];
  const int num_vecs = (t.head_dim + 15) / 16;
  for (int key = begin; key < end; ++key) {
    const float* v = value_row(t, first_group + key / 16) + key % 16 * t.v_row_stride;
    const V p = V::broadcast(state.scores[row][key]);
    for (int j = 0; j < num_vecs; ++j)
      V::fma(p, V::load(v + j * 16), V::load(out + j * 16)).store(out + j * 16);
  }
}

// x' = fma(x, a, x_c b) for the sum and the output of one row.
template <class V, int kRows>
void attention_merge(const AttentionTask& t, int row, bool first, AttentionState<V, kRows>& state) {
  float* out = state.out[row];
  const float* chunk = state.chunk_out[row];
  const int num_vecs = (t.head_dim + 15) / 16;
  if (first) {
    state.max[row] = state.chunk_max[row];
    state.sum[row] = state.chunk_sum[row];
    for (int j = 0; j < num_vecs; ++j) V::load(chunk + j * 16).store(out + j * 16);
    return;
  }
  const float max = state.chunk_max[row] > state.max[row] ? state.chunk_max[row] : state.max[row];
  const float a = exp_f32((state.max[row] - max) * t.scale);
  const float b = exp_f32((state.chunk_max[row] - max) * t.scale);
  state.max[row] = max;
  state.sum[row] = fused_multiply_add(state.sum[row], a, state.chunk_sum[row] * b);
  for (int j = 0; j < num_vecs; ++j)
    V::fma(V::load(out + j * 16), V::broadcast(a), V::load(chunk + j * 16) * V::broadcast(b))
        .store(out + j * 16);
}

template <class V, int kRows>
void attention_rows(const AttentionTask& t) {
  constexpr int kGroups = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;  // independent chains: about eight
  constexpr int kVecs = kRows <= 2 ? 4 : 2;
  AttentionState<V, kRows> state;
  int64_t most = 0;
  for (int r = 0; r < kRows; ++r) most = t.num_keys[r] > most ? t.num_keys[r] : most;
  for (int64_t start = 0; start < most; start += kChunk) {
    const int64_t first_group = start / 16;
    int row_keys[kRows], longest = 0, shortest = kChunk;
    for (int r = 0; r < kRows; ++r) {
      const int64_t left = t.num_keys[r] - start;
      row_keys[r] = left <= 0 ? 0 : left > kChunk ? kChunk : int(left);
      longest = row_keys[r] > longest ? row_keys[r] : longest;
      shortest = row_keys[r] < shortest ? row_keys[r] : shortest;
    }
    const int groups = (longest + 15) / 16;
    int g = 0;
    for (; g + kGroups <= groups; g += kGroups) attention_scores<V, kRows, kGroups>(t, first_group, g, state);
    for (; g < groups; ++g) attention_scores<V, kRows, 1>(t, first_group, g, state);
    for (int r = 0; r < kRows; ++r)
      if (row_keys[r] > 0) attention_softmax<V, kRows>(t, r, row_keys[r], state);
    const int num_vecs = (t.head_dim + 15) / 16;
    int vec = 0;
    for (; vec + kVecs <= num_vecs; vec += kVecs)
      attention_values<V, kRows, kVecs>(t, first_group, shortest, vec, state);
    for (; vec < num_vecs; ++vec) attention_values<V, kRows, 1>(t, first_group, shortest, vec, state);
    for (int r = 0; r < kRows; ++r)
      attention_values_edge<V, kRows>(t, first_group, r, shortest, row_keys[r], state);
    for (int r = 0; r < kRows; ++r)
      if (row_keys[r] > 0) attention_merge<V, kRows>(t, r, start == 0, state);
  }
  for (int r = 0; r < kRows; ++r) {
    const V sum = V::broadcast(state.sum[r]);
    for (int d = 0; d < t.head_dim; d += 16) {
      const int left = t.head_dim - d;
      (V::load(state.out[r] + d) / sum).store_first(t.out[r] + d, left < 16 ? left : 16);
    }
  }
}

template <class V, int kRows>
void attention_dispatch(const AttentionTask& t) {
  if constexpr (kRows > 1) {
    if (t.num_rows < kRows) return attention_dispatch<V, kRows - 1>(t);
  }
  attention_rows<V, kRows>(t);
}

// ---- rows: norms, rope, SwiGLU ----

template <class V>
float inverse_rms(const float* x, int64_t n, float eps) {
  V sum = V::zero();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const V v = V::load(x + i);
    sum = V::fma(v, v, sum);
  }
  if (i < n) {
    const V v = V::load_first(x + i, int(n - i));
    sum = V::fma(v, v, sum);
  }
  return 1.0f / __builtin_sqrtf(sum_of_lanes(sum) / float(n) + eps);
}

template <class V>
void scale_by_weight(float* out, const float* x, const float* weight, int64_t n, float scale) {
  const V s = V::broadcast(scale);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) (V::load(x + i) * s * V::load(weight + i)).store(out + i);
  if (i < n) {
    const int left = int(n - i);
    (V::load_first(x + i, left) * s * V::load_first(weight + i, left)).store_first(out + i, left);
  }
}

template <class V>
void rms_norm_kernel(float* out, const float* x, const float* weight, int64_t n, float eps) {
  scale_by_weight<V>(out, x, weight, n, inverse_rms<V>(x, n, eps));
}

template <class V>
void add_rms_norm_kernel(float* out, const float* const* segments, int num_segments, float* residual,
                         const float* weight, int64_t n, float eps) {
  for (int64_t i = 0; i < n; i += 16) {
    const int left = n - i < 16 ? int(n - i) : 16;
    V sum = V::load_first(segments[0] + i, left);
    if (num_segments >= 2) sum = sum + V::load_first(segments[1] + i, left);
    if (num_segments == 4)
      sum = sum + (V::load_first(segments[2] + i, left) + V::load_first(segments[3] + i, left));
    (sum + V::load_first(residual + i, left)).store_first(residual + i, left);
  }
  rms_norm_kernel<V>(out, residual, weight, n, eps);
}

template <class V>
void rope_kernel(float* head, const float* cos_sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float c = cos_sin[i], s = cos_sin[half + i], x1 = head[i], x2 = head[half + i];
    head[i] = x1 * c - x2 * s;
    head[half + i] = x2 * c + x1 * s;
  }
}

template <class V>
void silu_and_mul_kernel(float* out, const float* gate, const float* up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + exp_f32(-gate[i])) * up[i];
}

// ---- sampling ----

template <class V>
float row_max_kernel(const float* x, int64_t n) {
  float max[16];
  uint32_t bad[16];
  for (int j = 0; j < 16; ++j) {
    max[j] = -__builtin_inff();
    bad[j] = 0;
  }
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int j = 0; j < 16; ++j) {
      const float v = x[i + j];
      max[j] = v > max[j] ? v : max[j];
      bad[j] |= v < __builtin_inff() ? 0u : 1u;  // NaN and +infinity
    }
  }
  for (int j = 0; i < n; ++i, ++j) {
    max[j] = x[i] > max[j] ? x[i] : max[j];
    bad[j] |= x[i] < __builtin_inff() ? 0u : 1u;
  }
  for (int j = 0; j < 16; ++j) {
    if (bad[j]) return __builtin_nanf("");
    max[0] = max[j] > max[0] ? max[j] : max[0];
  }
  return max[0];
}

template <class V>
uint64_t sum_row_weights_kernel(const float* logits, int64_t n, float max, float inverse_temperature,
                                float least_below) {
  uint64_t sum[16] = {};
  const auto add = [&](const float* some) {  // loops of one type each, so that they vectorise
    float part[16];
    for (int lane = 0; lane < 16; ++lane) {
      const float below = below_max(some[lane], max, inverse_temperature);
      part[lane] = below >= least_below ? exp_f32(below) : 0.0f;
    }
    for (int lane = 0; lane < 16; ++lane) sum[lane] += uint64_t(double(part[lane]) * 0x1p32);
  };
  int64_t first = 0;
  for (; first + 16 <= n; first += 16) add(logits + first);
  if (first < n) {
    float rest[16];
    for (int lane = 0; lane < 16; ++lane)
      rest[lane] = first + lane < n ? logits[first + lane] : -__builtin_inff();
    add(rest);
  }
  for (int lane = 1; lane < 16; ++lane) sum[0] += sum[lane];
  return sum[0];
}

template <class V>
void weigh_kernel(Candidate* list, int64_t n, float max, float inverse_temperature) {
  for (int64_t i = 0; i < n; ++i)
    list[i].weight = weight_in_row(below_max(list[i].logit, max, inverse_temperature));
}

template <class V>
uint64_t sum_weights_kernel(const WeightTask& task) {
  uint64_t sum[16] = {};
  const int32_t last_id = task.last_id;
  const float max = task.max, inverse_temperature = task.inverse_temperature, last = task.last;
  const auto add = [&](const float* logits,
                       int32_t first) {  // loops of one type each, so that they vectorise
    uint32_t weights[16];
    for (int lane = 0; lane < 16; ++lane) {
      const uint32_t weight = weight_in_chunk(below_max(logits[lane], max, inverse_temperature));
      const uint32_t mask =
          logits[lane] > last || (logits[lane] == last && first + lane <= last_id) ? ~0u : 0u;
      weights[lane] = weight & mask;
    }
    for (int lane = 0; lane < 16; ++lane) sum[lane] += weights[lane];
  };
  int64_t first = 0;
  for (; first + 16 <= task.count; first += 16) add(task.logits + first, int32_t(first));
  if (first < task.count) {
    float rest[16];
    for (int lane = 0; lane < 16; ++lane)
      rest[lane] = first + lane < task.count ? task.logits[first + lane] : -__builtin_inff();
    add(rest, int32_t(first));
  }
  for (int lane = 1; lane < 16; ++lane) sum[0] += sum[lane];
  return sum[0];
}

template <class V>
constexpr Kernels make_kernels(std::string_view instruction_set) {
  return {.instruction_set = instruction_set,
          .attention_rows = V::kAttentionRows,
          .linear = linear_kernel<V>,
          .attention = attention_dispatch<V, V::kAttentionRows>,
          .rms_norm = rms_norm_kernel<V>,
          .add_rms_norm = add_rms_norm_kernel<V>,
          .rope = rope_kernel<V>,
          .silu_and_mul = silu_and_mul_kernel<V>,
          .row_max = row_max_kernel<V>,
          .sum_row_weights = sum_row_weights_kernel<V>,
          .weigh = weigh_kernel<V>,
          .sum_weights = sum_weights_kernel<V>};
}

}  // namespace nanovllm::cpu
