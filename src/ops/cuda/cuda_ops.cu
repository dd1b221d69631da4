// The CUDA backend's tables, one for each T.
#include <array>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels.cuh"
#include "ops/cuda/sample.cuh"

namespace nanovllm {
namespace cuda {
namespace {

constexpr auto kernel_texts(bool f32) {
  return std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"embedding", f32 ? "widens rows" : "copies rows"},
       {"linear",
        f32 ? "one chain of FMAs an output; weights widened as they are read"
            : "up to 64 tokens our own on Hopper, else cuBLASLt without workspace, or a plain chain"},
       {"rms_norm", "16 lanes, one fixed tree"},
       {"add_rms_norm", "adds partial sums and residual in the same pass"},
       {"rope", "pairs of a head"},
       {"silu_and_mul", "element by element"},
       {"store_kv", "rows of a head, block by block"},
       {"copy_blocks", "copies whole blocks"},
       {"attention", f32 ? "a thread block a row, chunks of 128 keys, merged in order"
                         : "m16n8k16, or wgmma on Hopper; chunks of 128 keys, merged in order"},
       {"sum_segments", "element by element"},
       {"gather_rows", "copies rows"},
       {"edit_logits", "a thread block a row"},
       {"sample", "a pass over chunks of a row, then one chunk; filters by counting keys"},
       {"top_logprobs", "a pass over chunks of a row, then those that have the likeliest"},
       {"norm_rope_store", "norms of heads, RoPE and the write of k and v in one pass, half a warp a head"},
       {"gated_linear", f32 ? "the single ops: linear, silu_and_mul"
                            : "one pass for few tokens on Hopper, else the single ops"}});
}
constexpr auto kMmaTexts = kernel_texts(false), kF32Texts = kernel_texts(true);

OpTable make_table(DType dtype) {
  const bool f32 = dtype == DType::kF32;
  return {.backend = "cuda",
          .instruction_set = f32 ? "float32" : "tensor cores",
          .device = &cuda_device(),
          .default_block_size = 64,
          .activation_dtype = dtype,
          .kv_dtype = dtype,
          .weights_are_T = !f32,
          // More make prompts little faster, and running answers wait longer for a token beside them.
          .default_batched_tokens = 4096,
          .kernels = f32 ? std::span(kF32Texts) : std::span(kMmaTexts),
          .make_state = []() -> void* { return new State; },
          .release_state = [](void* state) { delete static_cast<State*>(state); },
          .queue = &queue(),
          .num_prepared = [](const void* state) { return static_cast<const State*>(state)->lt.num_shapes(); },
          .workspace_bytes = workspace_bytes,
          .weight_bytes = weight_bytes,
          .store_weight = store_weight,
          .kv_block_bytes = kv_block_bytes,
          .embedding = embedding,
          .linear = f32 ? linear_f32 : linear_mma,
          .rms_norm = rms_norm,
          .add_rms_norm = add_rms_norm,
          .rope = rope,
          .silu_and_mul = silu_and_mul,
          .store_kv = store_kv,
          .copy_blocks = copy_blocks,
          .attention_plan_bytes = f32 ? nullptr : attention_plan_bytes,
          .plan_attention = f32 ? nullptr : plan_attention,
          .attention = f32 ? attention_f32 : attention_mma,
          .sum_segments = sum_segments,
          .gather_rows = gather_rows,
          .edit_logits = edit_logits,
          .restore_logits = restore_logits,
          .sample = sample,
          .top_logprobs = top_logprobs,
          .token_logprobs = token_logprobs,
          .norm_rope_store = norm_rope_store,
          .gated_linear = f32 ? nullptr : gated_linear};
}

}  // namespace

size_t workspace_bytes(const StepLimits& limits) {
  // The sums of a product whose bias is yet to be added.
  const size_t linear_bytes = Arena::bytes_of(DType::kF32, {limits.num_tokens, limits.bias_features});
  // Rows that are sampled: of sequences as a rule, never more than there are tokens.
  return std::max(linear_bytes,
                  sample_workspace_bytes(std::max(limits.num_seqs, limits.num_tokens), limits.vocab_size));
}

}  // namespace cuda

bool cuda_has_head_dim(DType dtype, int head_dim) {
  if (dtype == DType::kF32) return head_dim <= 256;
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

const OpTable& cuda_ops(DType activation_dtype) {
  if (const std::string why = cuda_unavailable(); !why.empty())
    fail(ErrorKind::kDevice, "cuda: ", why, ": want --device cpu");
  static const OpTable f32 = cuda::make_table(DType::kF32), f16 = cuda::make_table(DType::kF16),
                       bf16 = cuda::make_table(DType::kBF16);
  return activation_dtype == DType::kBF16 ? bf16 : activation_dtype == DType::kF16 ? f16 : f32;
}

}  // namespace nanovllm
