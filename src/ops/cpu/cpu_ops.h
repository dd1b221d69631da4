// The CPU backend: activations and KV cache in float32, weights in their own dtype, widened as they are read.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/ops.h"

namespace nanovllm {

// The table for the best instruction set of this processor.
const OpTable& cpu_ops();

// The table for a given one ("portable", "avx2", "avx512"): tests and benchmarks.
// throws Error(kConfig): unknown, or this processor cannot run it
const OpTable& cpu_ops(std::string_view instruction_set);

namespace cpu {

// Each op over one set of kernels: the table's entries are instantiated for each set (cpu_ops.cpp).
void linear(const Kernels&, Context&, const LinearArgs&);
void attention(const Kernels&, Context&, const AttentionArgs&);
void rms_norm(const Kernels&, Context&, const RmsNormArgs&);
void add_rms_norm(const Kernels&, Context&, const AddRmsNormArgs&);
void rope(const Kernels&, Context&, const RopeArgs&);
void silu_and_mul(const Kernels&, Context&, const SiluAndMulArgs&);
void sample(const Kernels&, Context&, const SampleArgs&);
void top_logprobs(const Kernels&, Context&, const TopLogprobsArgs&);

// Ops that move or add data: the same on every instruction set.
void store_weight(Context&, const StoreWeightArgs&);
void embedding(Context&, const EmbeddingArgs&);
void store_kv(Context&, const StoreKvArgs&);
void copy_blocks(Context&, const CopyBlocksArgs&);
void gather_rows(Context&, const GatherRowsArgs&);
void edit_logits(Context&, const EditLogitsArgs&);
void restore_logits(Context&, const EditLogitsArgs&);
void token_logprobs(Context&, const TokenLogprobsArgs&);
void sum_segments(Context&, const SumSegmentsArgs&);

size_t weight_bytes(DType dtype, int64_t out_features, int64_t in_features);
size_t attention_workspace_bytes(const StepLimits& limits);
size_t sample_workspace_bytes(const StepLimits& limits);
size_t kv_block_bytes(DType dtype, int block_size, int num_kv_heads, int head_dim);

}  // namespace cpu
}  // namespace nanovllm
