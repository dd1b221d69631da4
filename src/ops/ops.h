// All ops on one page. One backend = one table = one folder (ops/cpu); an op's contract is its own header.
//
// A null entry means "not supported here". The functions in the op headers check shapes by name, then call
// the table.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "ops/attention.h"
#include "ops/context.h"
#include "ops/edit_logits.h"
#include "ops/embedding.h"
#include "ops/gated_linear.h"
#include "ops/gather_rows.h"
#include "ops/kv_layer.h"
#include "ops/linear.h"
#include "ops/logprobs.h"
#include "ops/norm_rope_store.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/sample.h"
#include "ops/silu_and_mul.h"
#include "ops/sum_segments.h"
#include "ops/weight.h"
#include "tensor/device.h"
#include "tensor/device_queue.h"

namespace nanovllm {

// The largest step of an engine.
struct StepLimits {
  int num_threads = 1;
  int64_t num_seqs = 0, max_blocks = 0;  // max_blocks: of one sequence
  int64_t vocab_size = 0;
  int block_size = 16, head_dim = 0;
  int64_t num_tokens = 0;
  int64_t bias_features = 0;  // the widest product that has a bias and is rounded; 0: none
};

struct OpTable {
  std::string_view backend = {};          // "cpu"
  std::string_view instruction_set = {};  // what its kernels were compiled for: "avx512"
  const Device* device = nullptr;         // where its tensors live
  int default_block_size = 16;
  DType activation_dtype = DType::kF32;  // T of the op headers
  DType kv_dtype = DType::kF32;          // of the KV cache
  bool weights_are_T = false;            // matrices must be of T; false: any float, widened as it is read
  int default_batched_tokens = 0;        // of one step, where the user names no budget
  // What serves each op, for people: {"copy_blocks", "copies whole blocks"}.
  std::span<const std::pair<std::string_view, std::string_view>> kernels = {};

  // What a rank keeps on its device beside tensors: Context::state. Null: nothing.
  void* (*make_state)() = nullptr;
  void (*release_state)(void*) = nullptr;
  const DeviceQueue* queue = nullptr;  // of that state
  // How many kinds of work the backend has prepared itself for when it first met them, which takes time. Null: none.
  int64_t (*num_prepared)(const void* state) = nullptr;

  // The most that one op takes from the arena inside a step.
  size_t (*workspace_bytes)(const StepLimits&) = nullptr;
  size_t (*weight_bytes)(DType, int64_t out_features, int64_t in_features) = nullptr;
  void (*store_weight)(Context&, const StoreWeightArgs&) = nullptr;
  size_t (*kv_block_bytes)(DType, int block_size, int num_kv_heads, int head_dim) = nullptr;

  void (*embedding)(Context&, const EmbeddingArgs&) = nullptr;
  void (*linear)(Context&, const LinearArgs&) = nullptr;
  void (*rms_norm)(Context&, const RmsNormArgs&) = nullptr;
  void (*add_rms_norm)(Context&, const AddRmsNormArgs&) = nullptr;
  void (*rope)(Context&, const RopeArgs&) = nullptr;
  void (*silu_and_mul)(Context&, const SiluAndMulArgs&) = nullptr;
  void (*store_kv)(Context&, const StoreKvArgs&) = nullptr;
  void (*copy_blocks)(Context&, const CopyBlocksArgs&) = nullptr;
  // Both null, or 0 bytes: nothing to plan.
  size_t (*attention_plan_bytes)(const AttentionMeta&, const KvLayer&, int num_heads) = nullptr;
  void (*plan_attention)(Context&, const PlanAttentionArgs&) = nullptr;
  void (*attention)(Context&, const AttentionArgs&) = nullptr;
  void (*sum_segments)(Context&, const SumSegmentsArgs&) = nullptr;
  void (*gather_rows)(Context&, const GatherRowsArgs&) = nullptr;
  void (*edit_logits)(Context&, const EditLogitsArgs&) = nullptr;
  void (*restore_logits)(Context&, const EditLogitsArgs&) = nullptr;
  void (*sample)(Context&, const SampleArgs&) = nullptr;
  void (*top_logprobs)(Context&, const TopLogprobsArgs&) = nullptr;
  void (*token_logprobs)(Context&, const TokenLogprobsArgs&) = nullptr;

  // Fused: null where the backend has only the single ops.
  void (*norm_rope_store)(Context&, const NormRopeStoreArgs&) = nullptr;
  void (*gated_linear)(Context&, const GatedLinearArgs&) = nullptr;
};

// A table whose ops do nothing: with a measuring arena, a forward tells what memory it takes
// (runtime/memory_plan.h).
// Its dtypes are those of `like`.
OpTable dry_ops(const OpTable& like);

}  // namespace nanovllm
