// The CPU backend's kernels: one table for each instruction set, chosen once by cpuid (runnable_kernels).
//
// A kernel does one thread's share of an op; the op's file (linear.cpp, attention.cpp, ...) cuts the work
// into shares. All tables give the same bits (tests/ops compares them), so a request's answer does not depend
// on the processor either. kernels_impl.h is compiled once for each table, in kernels_<set>.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace nanovllm::cpu {

// Some neighbouring panels (ops/cpu/panels.h) of one segment of a product, for all rows.
struct LinearTask {
  DType dtype;
  const std::byte* panels;  // first panel, at the segment's first k
  int64_t panel_stride;     // bytes from panel to panel
  int64_t k;                // length of the chain
  int64_t num_outputs;      // of these panels; the last may be partly filled
  const float* x;           // [num_rows, k], rows x_stride apart
  int64_t x_stride;
  int64_t num_rows;
  float* out;  // [num_rows, num_outputs], rows out_stride apart
  int64_t out_stride;
  const float* bias;  // [num_outputs] or null
};

// Up to Kernels::attention_rows query rows that read the same keys and values.
struct AttentionTask {
  const float* const* q;    // [num_rows] → [head_dim]
  float* const* out;        // [num_rows] → [head_dim]
  const int64_t* num_keys;  // [num_rows] keys each row sees, at least 1
  int num_rows;
  int head_dim;
  float scale;
  // Keys of 16 positions: k + group(position / 16) * k_group; layout in attention.cpp.
  const float* k;
  const float* v;
  const int32_t* block_table;
  int groups_per_block;    // block_size / 16
  int64_t k_group_stride;  // floats from group to group within a block
  int64_t k_block_stride;  // floats from block to block
  int64_t v_row_stride;    // floats from position to position within a block
  int64_t v_block_stride;
};

// Some of a row's ids to draw from: those with a larger logit than `last`, and up to id last_id those with an equal one.
struct WeightTask {
  const float* logits;
  int64_t count;
  float max, inverse_temperature;  // max is finite
  float last;
  int32_t last_id;
};

// An id of a row that is sampled, and its weight_in_row (ops/draw.h).
struct Candidate {
  float logit;
  int32_t id;
  uint64_t weight;
};

struct Kernels {
  std::string_view instruction_set;
  int attention_rows;  // the most rows an AttentionTask may have

  void (*linear)(const LinearTask&);
  void (*attention)(const AttentionTask&);
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t n, float eps);
  // residual += sum of the segments, then as rms_norm
  void (*add_rms_norm)(float* out, const float* const* segments, int num_segments, float* residual,
                       const float* weight, int64_t n, float eps);
  void (*rope)(float* head, const float* cos_sin, int64_t half);
  void (*silu_and_mul)(float* out, const float* gate, const float* up, int64_t n);
  // The largest value; NaN if any is NaN or +infinity.
  float (*row_max)(const float* x, int64_t n);
  // The sum of weight_in_row of those that are at most -least_below below max.
  uint64_t (*sum_row_weights)(const float* logits, int64_t n, float max, float inverse_temperature,
                              float least_below);
  // Fills in the weights.
  void (*weigh)(Candidate* list, int64_t n, float max, float inverse_temperature);
  // The sum of weight_in_chunk (ops/draw.h).
  uint64_t (*sum_weights)(const WeightTask&);
};

const Kernels& kernels_portable();
const Kernels& kernels_avx2();  // x86-64 builds only, these two
const Kernels& kernels_avx512();

// What this processor can run, best first; never empty.
struct KernelList {
  const Kernels* sets[3];
  int count;
};
KernelList runnable_kernels();

}  // namespace nanovllm::cpu
