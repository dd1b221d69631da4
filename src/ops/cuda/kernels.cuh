// The ops of the CUDA backend, which cuda_ops.cu enters in the tables.
#pragma once

#include <algorithm>

#include "ops/cuda/cuda_common.cuh"
#include "ops/ops.h"

namespace nanovllm::cuda {

const DeviceQueue& queue();

size_t weight_bytes(DType dtype, int64_t out_features, int64_t in_features);
void store_weight(Context& ctx, const StoreWeightArgs& args);
size_t kv_block_bytes(DType dtype, int block_size, int num_kv_heads, int head_dim);
size_t workspace_bytes(const StepLimits& limits);

void embedding(Context& ctx, const EmbeddingArgs& args);
void rms_norm(Context& ctx, const RmsNormArgs& args);
void add_rms_norm(Context& ctx, const AddRmsNormArgs& args);
void rope(Context& ctx, const RopeArgs& args);
void silu_and_mul(Context& ctx, const SiluAndMulArgs& args);
void store_kv(Context& ctx, const StoreKvArgs& args);
void copy_blocks(Context& ctx, const CopyBlocksArgs& args);
void sum_segments(Context& ctx, const SumSegmentsArgs& args);
void gather_rows(Context& ctx, const GatherRowsArgs& args);
void edit_logits(Context& ctx, const EditLogitsArgs& args);
void restore_logits(Context& ctx, const EditLogitsArgs& args);
void sample(Context& ctx, const SampleArgs& args);
void top_logprobs(Context& ctx, const TopLogprobsArgs& args);
void token_logprobs(Context& ctx, const TokenLogprobsArgs& args);
void norm_rope_store(Context& ctx, const NormRopeStoreArgs& args);

// Chains of fused multiply-adds in float32; weights of any dtype, widened as they are read.
void linear_f32(Context& ctx, const LinearArgs& args);
void attention_f32(Context& ctx, const AttentionArgs& args);

// T = bf16 or f16, by tensor cores. throws Error(kUnsupported): a weight of another dtype, a head_dim without a kernel
void linear_mma(Context& ctx, const LinearArgs& args);
void gated_linear(Context& ctx, const GatedLinearArgs& args);
void attention_mma(Context& ctx, const AttentionArgs& args);

// Sequences with one query go by a kernel of their own where there is one for the cache (attention_plan.cuh).
size_t attention_plan_bytes(const AttentionMeta& meta, const KvLayer& cache, int num_heads);
void plan_attention(Context& ctx, const PlanAttentionArgs& args);
void decode_attention(Context& ctx, const AttentionArgs& args);  // of these; writes no other rows

// Whether a kernel for many queries is there that suits the step; it takes all sequences that are not planned, and gives
// attention_mma's bits.
bool is_for_prefill_kernel(const AttentionArgs& args);
void prefill_attention(Context& ctx, const AttentionArgs& args);

}  // namespace nanovllm::cuda
