// Shape checks and dispatch of every op.
#include "ops/ops.h"

#include "base/assert.h"
#include "base/error.h"
#include "ops/check.h"
#include "ops/draw.h"

namespace nanovllm {
namespace {

template <class Function, class Args>
void call(Context& ctx, std::string_view op, Function function, const Args& args) {
  if (!function) fail(ErrorKind::kUnsupported, op, ": no ", ctx.ops.backend, " implementation");
  function(ctx, args);
}

void check_weight(std::string_view op, std::string_view argument, const Weight& weight, Dim& out, Dim& in) {
  if (out.size < 0) out.size = weight.out_features;
  if (in.size < 0) in.size = weight.in_features;
  if (weight.defined() && weight.out_features == out.size && weight.in_features == in.size) return;
  fail(ErrorKind::kConfig, op, ": ", argument, " is [", weight.out_features, ", ", weight.in_features,
       "], want [", out.name, "=", out.size, ", ", in.name, "=", in.size, "]");
}

void check_cache(const OpTable& ops, std::string_view op, const KvLayer& cache, const Dim& num_kv_heads,
                 const Dim& head_dim) {
  if (cache.block_size < 1)
    fail(ErrorKind::kConfig, op, ": block_size is ", cache.block_size, ", want at least 1");
  if (cache.dtype != ops.kv_dtype)
    fail(ErrorKind::kConfig, op, ": cache is ", dtype_name(cache.dtype), ", want ", dtype_name(ops.kv_dtype));
  if (cache.num_kv_heads == num_kv_heads.size && cache.head_dim == head_dim.size) return;
  fail(ErrorKind::kConfig, op, ": cache has ", cache.num_kv_heads, " heads of ", cache.head_dim, ", want ",
       num_kv_heads.size, " of ", head_dim.size);
}

template <class Args>
void do_nothing(Context&, const Args&) {}

}  // namespace

OpTable dry_ops(const OpTable& like) {
  return {.backend = "dry",
          .activation_dtype = like.activation_dtype,
          .kv_dtype = like.kv_dtype,
          .embedding = do_nothing<EmbeddingArgs>,
          .linear = do_nothing<LinearArgs>,
          .rms_norm = do_nothing<RmsNormArgs>,
          .add_rms_norm = do_nothing<AddRmsNormArgs>,
          .rope = do_nothing<RopeArgs>,
          .silu_and_mul = do_nothing<SiluAndMulArgs>,
          .store_kv = do_nothing<StoreKvArgs>,
          .copy_blocks = do_nothing<CopyBlocksArgs>,
          .attention_plan_bytes = like.attention_plan_bytes,
          .plan_attention = do_nothing<PlanAttentionArgs>,
          .attention = do_nothing<AttentionArgs>,
          .sum_segments = do_nothing<SumSegmentsArgs>,
          .gather_rows = do_nothing<GatherRowsArgs>,
          .edit_logits = do_nothing<EditLogitsArgs>,
          .restore_logits = do_nothing<EditLogitsArgs>,
          .sample = do_nothing<SampleArgs>,
          .top_logprobs = do_nothing<TopLogprobsArgs>,
          .token_logprobs = do_nothing<TokenLogprobsArgs>};
}

void store_weight(Context& ctx, const StoreWeightArgs& a) {
  const bool rows_fit = a.first_row >= 0 && a.first_row + a.rows.num_rows <= a.weight.out_features;
  if (!rows_fit || a.rows.in_features != a.weight.in_features || a.rows.row_stride < a.rows.in_features)
    fail(ErrorKind::kConfig, "store_weight: rows are [", a.rows.num_rows, ", ", a.rows.in_features, "] at ",
         a.first_row, ", want them inside [", a.weight.out_features, ", ", a.weight.in_features, "]");
  if (a.rows.dtype != a.weight.dtype && a.weight.dtype != DType::kF32)
    fail(ErrorKind::kConfig, "store_weight: rows are ", dtype_name(a.rows.dtype), ", want ",
         dtype_name(a.weight.dtype));
  call(ctx, "store_weight", ctx.ops.store_weight, a);
}

size_t weight_bytes(const OpTable& ops, DType dtype, int64_t out_features, int64_t in_features) {
  return ops.weight_bytes(dtype, out_features, in_features);
}

size_t kv_block_bytes(const OpTable& ops, DType dtype, int block_size, int num_kv_heads, int head_dim) {
  return ops.kv_block_bytes(dtype, block_size, num_kv_heads, head_dim);
}

void embedding(Context& ctx, const EmbeddingArgs& a) {
  Dim num_tokens{"num_tokens"}, hidden_size{"hidden_size"}, rows{"rows"};
  check_shape("embedding", "token_ids", a.token_ids, {&num_tokens});
  check_shape("embedding", "out", a.out, {&num_tokens, &hidden_size});
  check_weight("embedding", "table", a.table, rows, hidden_size);
  check_dtype("embedding", "out", a.out, ctx.ops.activation_dtype);
  check_dtype("embedding", "token_ids", a.token_ids, DType::kI32);
  call(ctx, "embedding", ctx.ops.embedding, a);
}

void linear(Context& ctx, const LinearArgs& a) {
  Dim num_tokens{"num_tokens"}, in{"in_features"}, out{"out_features"}, segments{"num_segments"};
  check_shape("linear", "x", a.x, {&num_tokens, &in});
  check_weight("linear", "weight", a.weight, out, in);
  if (a.out.rank == 3)
    check_shape("linear", "out", a.out, {&segments, &num_tokens, &out});
  else
    check_shape("linear", "out", a.out, {&num_tokens, &out});
  if (a.out.rank == 3 && (segments.size < 1 || in.size % segments.size != 0))
    fail(ErrorKind::kConfig, "linear: in_features is ", in.size,
         ", want a multiple of num_segments=", segments.size);
  check_dtype("linear", "x", a.x, ctx.ops.activation_dtype);
  // Partial sums and logits are f32 whatever T is.
  if (a.out.dtype != DType::kF32) check_dtype("linear", "out", a.out, ctx.ops.activation_dtype);
  if (a.bias.defined()) check_shape("linear", "bias", a.bias, {&out});
  call(ctx, "linear", ctx.ops.linear, a);
}

void rms_norm(Context& ctx, const RmsNormArgs& a) {
  Dim num_tokens{"num_tokens"}, num_heads{"num_heads"},
      hidden_size{a.x.rank == 3 ? "head_dim" : "hidden_size"};
  if (a.x.rank == 3) {
    check_shape("rms_norm", "x", a.x, {&num_tokens, &num_heads, &hidden_size});
    check_shape("rms_norm", "out", a.out, {&num_tokens, &num_heads, &hidden_size});
  } else {
    check_shape("rms_norm", "x", a.x, {&num_tokens, &hidden_size});
    check_shape("rms_norm", "out", a.out, {&num_tokens, &hidden_size});
  }
  check_shape("rms_norm", "weight", a.weight, {&hidden_size});
  check_dtype("rms_norm", "x", a.x, ctx.ops.activation_dtype);
  check_dtype("rms_norm", "out", a.out, ctx.ops.activation_dtype);
  check_dtype("rms_norm", "weight", a.weight, DType::kF32);
  call(ctx, "rms_norm", ctx.ops.rms_norm, a);
}

void add_rms_norm(Context& ctx, const AddRmsNormArgs& a) {
  Dim segments{"num_segments"}, num_tokens{"num_tokens"}, hidden_size{"hidden_size"};
  check_shape("add_rms_norm", "partial_sums", a.partial_sums, {&segments, &num_tokens, &hidden_size});
  check_shape("add_rms_norm", "residual", a.residual, {&num_tokens, &hidden_size});
  check_shape("add_rms_norm", "out", a.out, {&num_tokens, &hidden_size});
  check_shape("add_rms_norm", "weight", a.weight, {&hidden_size});
  check_dtype("add_rms_norm", "partial_sums", a.partial_sums, DType::kF32);
  check_dtype("add_rms_norm", "residual", a.residual, ctx.ops.activation_dtype);
  check_dtype("add_rms_norm", "out", a.out, ctx.ops.activation_dtype);
  check_dtype("add_rms_norm", "weight", a.weight, DType::kF32);
  if (segments.size != 1 && segments.size != 2 && segments.size != 4)
    fail(ErrorKind::kConfig, "add_rms_norm: num_segments is ", segments.size, ", want 1, 2 or 4");
  call(ctx, "add_rms_norm", ctx.ops.add_rms_norm, a);
}

void rope(Context& ctx, const RopeArgs& a) {
  Dim num_tokens{"num_tokens"}, num_heads{"num_heads"}, num_kv_heads{"num_kv_heads"}, head_dim{"head_dim"},
      max_positions{"max_positions"}, rotary_dim{"rotary_dim"};
  check_shape("rope", "q", a.q, {&num_tokens, &num_heads, &head_dim});
  check_shape("rope", "k", a.k, {&num_tokens, &num_kv_heads, &head_dim});
  check_shape("rope", "positions", a.positions, {&num_tokens});
  check_shape("rope", "cos_sin", a.cos_sin, {&max_positions, &rotary_dim});
  if (rotary_dim.size % 2 != 0 || rotary_dim.size > head_dim.size)
    fail(ErrorKind::kConfig, "rope: rotary_dim is ", rotary_dim.size,
         ", want an even number up to head_dim=", head_dim.size);
  check_dtype("rope", "q", a.q, ctx.ops.activation_dtype);
  check_dtype("rope", "k", a.k, ctx.ops.activation_dtype);
  check_dtype("rope", "positions", a.positions, DType::kI32);
  check_dtype("rope", "cos_sin", a.cos_sin, DType::kF32);
  call(ctx, "rope", ctx.ops.rope, a);
}

void silu_and_mul(Context& ctx, const SiluAndMulArgs& a) {
  Dim num_tokens{"num_tokens"}, intermediate{"intermediate_size"};
  check_shape("silu_and_mul", "out", a.out, {&num_tokens, &intermediate});
  Dim both{"2 intermediate_size", 2 * intermediate.size};
  check_shape("silu_and_mul", "gate_up", a.gate_up, {&num_tokens, &both});
  check_dtype("silu_and_mul", "out", a.out, ctx.ops.activation_dtype);
  check_dtype("silu_and_mul", "gate_up", a.gate_up, ctx.ops.activation_dtype);
  call(ctx, "silu_and_mul", ctx.ops.silu_and_mul, a);
}

void store_kv(Context& ctx, const StoreKvArgs& a) {
  Dim num_tokens{"num_tokens"}, num_kv_heads{"num_kv_heads"}, head_dim{"head_dim"};
  check_shape("store_kv", "k", a.k, {&num_tokens, &num_kv_heads, &head_dim});
  check_shape("store_kv", "v", a.v, {&num_tokens, &num_kv_heads, &head_dim});
  check_shape("store_kv", "slot_mapping", a.slot_mapping, {&num_tokens});
  check_cache(ctx.ops, "store_kv", a.cache, num_kv_heads, head_dim);
  check_dtype("store_kv", "k", a.k, ctx.ops.activation_dtype);
  check_dtype("store_kv", "v", a.v, ctx.ops.activation_dtype);
  check_dtype("store_kv", "slot_mapping", a.slot_mapping, DType::kI32);
  call(ctx, "store_kv", ctx.ops.store_kv, a);
}

void gated_linear_by_single_ops(Context& ctx, const GatedLinearArgs& a) {
  const Arena::Scope scope(ctx.arena);
  const Tensor gate_up = ctx.arena.make(a.out.dtype, {a.x.shape[0], a.weight.out_features});
  linear(ctx, {.out = gate_up, .x = a.x, .weight = a.weight, .bias = a.bias});
  silu_and_mul(ctx, {.out = a.out, .gate_up = gate_up});
}

void gated_linear(Context& ctx, const GatedLinearArgs& a) {
  if (!ctx.ops.gated_linear) return gated_linear_by_single_ops(ctx, a);
  Dim num_tokens{"num_tokens"}, intermediate_size{"intermediate_size"}, in_features{"in_features"};
  check_shape("gated_linear", "out", a.out, {&num_tokens, &intermediate_size});
  check_shape("gated_linear", "x", a.x, {&num_tokens, &in_features});
  Dim both{"2 intermediate_size", 2 * intermediate_size.size};
  check_weight("gated_linear", "weight", a.weight, both, in_features);
  for (const Tensor& t : {a.out, a.x}) check_dtype("gated_linear", "out or x", t, ctx.ops.activation_dtype);
  if (a.bias.defined()) {
    check_shape("gated_linear", "bias", a.bias, {&both});
    check_dtype("gated_linear", "bias", a.bias, DType::kF32);
  }
  call(ctx, "gated_linear", ctx.ops.gated_linear, a);
}

void norm_rope_store_by_single_ops(Context& ctx, const NormRopeStoreArgs& a) {
  if (a.q_weight.defined()) {
    rms_norm(ctx, {.out = a.q, .x = a.q, .weight = a.q_weight, .eps = a.eps});
    rms_norm(ctx, {.out = a.k, .x = a.k, .weight = a.k_weight, .eps = a.eps});
  }
  rope(ctx, {.q = a.q, .k = a.k, .positions = a.positions, .cos_sin = a.cos_sin});
  store_kv(ctx, {.cache = a.cache, .k = a.k, .v = a.v, .slot_mapping = a.slot_mapping});
}

void norm_rope_store(Context& ctx, const NormRopeStoreArgs& a) {
  if (!ctx.ops.norm_rope_store || ctx.trace) return norm_rope_store_by_single_ops(ctx, a);
  Dim num_tokens{"num_tokens"}, num_heads{"num_heads"}, num_kv_heads{"num_kv_heads"}, head_dim{"head_dim"},
      max_positions{"max_positions"}, rotary_dim{"rotary_dim"};
  check_shape("norm_rope_store", "q", a.q, {&num_tokens, &num_heads, &head_dim});
  check_shape("norm_rope_store", "k", a.k, {&num_tokens, &num_kv_heads, &head_dim});
  check_shape("norm_rope_store", "v", a.v, {&num_tokens, &num_kv_heads, &head_dim});
  check_shape("norm_rope_store", "positions", a.positions, {&num_tokens});
  check_shape("norm_rope_store", "slot_mapping", a.slot_mapping, {&num_tokens});
  check_shape("norm_rope_store", "cos_sin", a.cos_sin, {&max_positions, &rotary_dim});
  check_cache(ctx.ops, "norm_rope_store", a.cache, num_kv_heads, head_dim);
  for (const Tensor& t : {a.q, a.k, a.v})
    check_dtype("norm_rope_store", "q, k or v", t, ctx.ops.activation_dtype);
  for (const Tensor& t : {a.positions, a.slot_mapping})
    check_dtype("norm_rope_store", "positions or slot_mapping", t, DType::kI32);
  check_dtype("norm_rope_store", "cos_sin", a.cos_sin, DType::kF32);
  for (const Tensor& t : {a.q_weight, a.k_weight}) {
    if (!a.q_weight.defined()) continue;
    check_shape("norm_rope_store", "q_weight or k_weight", t, {&head_dim});
    check_dtype("norm_rope_store", "q_weight or k_weight", t, DType::kF32);
  }
  call(ctx, "norm_rope_store", ctx.ops.norm_rope_store, a);
}

void copy_blocks(Context& ctx, const CopyBlocksArgs& a) {
  Dim num_block_copies{"num_block_copies"}, two{"2", 2};
  check_shape("copy_blocks", "block_copies", a.block_copies, {&num_block_copies, &two});
  check_dtype("copy_blocks", "block_copies", a.block_copies, DType::kI32);
  call(ctx, "copy_blocks", ctx.ops.copy_blocks, a);
}

void attention(Context& ctx, const AttentionArgs& a) {
  Dim num_tokens{"num_tokens"}, num_heads{"num_heads"}, head_dim{"head_dim"}, num_seqs{"num_seqs"},
      max_blocks{"max_blocks"};
  check_shape("attention", "q", a.q, {&num_tokens, &num_heads, &head_dim});
  Dim width{"num_heads * head_dim", num_heads.size * head_dim.size};
  check_shape("attention", "out", a.out, {&num_tokens, &width});
  check_shape("attention", "seq_lens", a.meta.seq_lens, {&num_seqs});
  Dim num_seqs_and_one{"num_seqs + 1", num_seqs.size + 1};
  check_shape("attention", "cu_seqlens_q", a.meta.cu_seqlens_q, {&num_seqs_and_one});
  check_shape("attention", "block_table", a.meta.block_table, {&num_seqs, &max_blocks});
  check_cache(ctx.ops, "attention", a.cache, {"num_kv_heads", a.cache.num_kv_heads}, head_dim);
  if (a.cache.num_kv_heads < 1 || num_heads.size % a.cache.num_kv_heads != 0)
    fail(ErrorKind::kConfig, "attention: num_heads is ", num_heads.size,
         ", want a multiple of num_kv_heads=", a.cache.num_kv_heads);
  check_dtype("attention", "q", a.q, ctx.ops.activation_dtype);
  check_dtype("attention", "out", a.out, ctx.ops.activation_dtype);
  for (const Tensor& t : {a.meta.seq_lens, a.meta.cu_seqlens_q, a.meta.block_table})
    check_dtype("attention", "meta", t, DType::kI32);
  call(ctx, "attention", ctx.ops.attention, a);
}

AttentionMeta plan_attention(Context& ctx, const AttentionMeta& meta, const KvLayer& cache, int num_heads) {
  const size_t bytes =
      ctx.ops.attention_plan_bytes ? ctx.ops.attention_plan_bytes(meta, cache, num_heads) : 0;
  if (bytes == 0) return meta;
  AttentionMeta planned = meta;
  planned.plan = ctx.arena.make(DType::kI32, {int64_t((bytes + 3) / 4)});
  call(ctx, "plan_attention", ctx.ops.plan_attention,
       PlanAttentionArgs{.plan = planned.plan, .meta = meta, .cache = cache, .num_heads = num_heads});
  return planned;
}

void sum_segments(Context& ctx, const SumSegmentsArgs& a) {
  Dim segments{"num_segments"}, num_tokens{"num_tokens"}, hidden_size{"hidden_size"};
  check_shape("sum_segments", "partial_sums", a.partial_sums, {&segments, &num_tokens, &hidden_size});
  check_shape("sum_segments", "out", a.out, {&num_tokens, &hidden_size});
  check_dtype("sum_segments", "partial_sums", a.partial_sums, DType::kF32);
  check_dtype("sum_segments", "out", a.out, DType::kF32);
  if (segments.size != 2)
    fail(ErrorKind::kConfig, "sum_segments: num_segments is ", segments.size, ", want 2");
  call(ctx, "sum_segments", ctx.ops.sum_segments, a);
}

void gather_rows(Context& ctx, const GatherRowsArgs& a) {
  Dim num_rows{"num_rows"}, num_tokens{"num_tokens"}, width{"width"};
  check_shape("gather_rows", "indices", a.indices, {&num_rows});
  check_shape("gather_rows", "x", a.x, {&num_tokens, &width});
  check_shape("gather_rows", "out", a.out, {&num_rows, &width});
  check_dtype("gather_rows", "indices", a.indices, DType::kI32);
  check_dtype("gather_rows", "out", a.out, a.x.dtype);
  call(ctx, "gather_rows", ctx.ops.gather_rows, a);
}

void check_edits(const EditLogitsArgs& a) {
  Dim num_rows{"num_rows"}, vocab_size{"vocab_size"}, num_masked{"num_masked"}, num_edited{"num_edited"},
      num_edits{"num_edits"};
  check_shape("edit_logits", "logits", a.logits, {&num_rows, &vocab_size});
  check_dtype("edit_logits", "logits", a.logits, DType::kF32);
  if (a.masked_rows.defined()) {
    Dim num_words{"(vocab_size + 31) / 32", (vocab_size.size + 31) / 32};
    check_shape("edit_logits", "masked_rows", a.masked_rows, {&num_masked});
    check_shape("edit_logits", "masks", a.masks, {&num_masked, &num_words});
    for (const Tensor& t : {a.masked_rows, a.masks})
      check_dtype("edit_logits", "masked_rows or masks", t, DType::kI32);
  }
  if (!a.rows.defined()) return;
  check_shape("edit_logits", "rows", a.rows, {&num_edited});
  Dim num_edited_and_one{"num_edited + 1", num_edited.size + 1};
  check_shape("edit_logits", "begins", a.begins, {&num_edited_and_one});
  check_shape("edit_logits", "penalties", a.penalties, {&num_edited});
  check_shape("edit_logits", "ids", a.ids, {&num_edits});
  check_shape("edit_logits", "addends", a.addends, {&num_edits});
  for (const Tensor& t : {a.rows, a.begins, a.ids})
    check_dtype("edit_logits", "rows, begins or ids", t, DType::kI32);
  for (const Tensor& t : {a.penalties, a.addends})
    check_dtype("edit_logits", "penalties or addends", t, DType::kF32);
}

void edit_logits(Context& ctx, const EditLogitsArgs& a) {
  check_edits(a);
  call(ctx, "edit_logits", ctx.ops.edit_logits, a);
}

void restore_logits(Context& ctx, const EditLogitsArgs& a) {
  check_edits(a);
  call(ctx, "restore_logits", ctx.ops.restore_logits, a);
}

void sample(Context& ctx, const SampleArgs& a) {
  Dim num_rows{"num_rows"}, vocab_size{"vocab_size"}, two{"2", 2};
  check_shape("sample", "logits", a.logits, {&num_rows, &vocab_size});
  check_shape("sample", "out", a.out, {&num_rows});
  check_shape("sample", "temperature", a.temperature, {&num_rows});
  check_shape("sample", "top_k", a.top_k, {&num_rows});
  check_shape("sample", "top_p", a.top_p, {&num_rows});
  check_shape("sample", "min_p", a.min_p, {&num_rows});
  check_shape("sample", "seeds", a.seeds, {&num_rows, &two});
  check_shape("sample", "positions", a.positions, {&num_rows});
  check_shape("sample", "sample_indices", a.sample_indices, {&num_rows});
  for (const Tensor& t : {a.logits, a.temperature, a.top_p, a.min_p})
    check_dtype("sample", "logits, temperature, top_p or min_p", t, DType::kF32);
  for (const Tensor& t : {a.out, a.top_k, a.seeds, a.positions, a.sample_indices})
    check_dtype("sample", "out, top_k, seeds, positions or sample_indices", t, DType::kI32);
  if (a.num_valid_tokens < 1 || a.num_valid_tokens > vocab_size.size)
    fail(ErrorKind::kConfig, "sample: num_valid_tokens is ", a.num_valid_tokens,
         ", want 1 to vocab_size=", vocab_size.size);
  ASSERT(vocab_size.size < kMostDrawIds);
  call(ctx, "sample", ctx.ops.sample, a);
}

void top_logprobs(Context& ctx, const TopLogprobsArgs& a) {
  Dim num_rows{"num_rows"}, vocab_size{"vocab_size"}, num_wanted{"num_wanted"}, num_top{"num_top"},
      two{"2", 2};
  check_shape("top_logprobs", "logits", a.logits, {&num_rows, &vocab_size});
  check_shape("top_logprobs", "rows", a.rows, {&num_wanted});
  check_shape("top_logprobs", "norms", a.norms, {&num_wanted, &two});
  check_shape("top_logprobs", "top_ids", a.top_ids, {&num_wanted, &num_top});
  check_shape("top_logprobs", "top_logprobs", a.top_logprobs, {&num_wanted, &num_top});
  for (const Tensor& t : {a.rows, a.top_ids}) check_dtype("top_logprobs", "rows or top_ids", t, DType::kI32);
  for (const Tensor& t : {a.logits, a.norms, a.top_logprobs})
    check_dtype("top_logprobs", "logits, norms or top_logprobs", t, DType::kF32);
  const int64_t most = std::min<int64_t>(kMostTopLogprobs, vocab_size.size);
  if (num_top.size > most)
    fail(ErrorKind::kConfig, "top_logprobs: num_top is ", num_top.size, ", want at most ", most);
  call(ctx, "top_logprobs", ctx.ops.top_logprobs, a);
}

void token_logprobs(Context& ctx, const TokenLogprobsArgs& a) {
  Dim num_rows{"num_rows"}, vocab_size{"vocab_size"}, num_wanted{"num_wanted"}, one{"1", 1}, two{"2", 2};
  check_shape("token_logprobs", "logits", a.logits, {&num_rows, &vocab_size});
  check_shape("token_logprobs", "rows", a.rows, {&num_wanted});
  check_shape("token_logprobs", "norms", a.norms, {&num_wanted, &two});
  check_shape("token_logprobs", "ids", a.ids, {&num_rows});
  check_shape("token_logprobs", "out", a.out, {&num_wanted, &one});
  for (const Tensor& t : {a.rows, a.ids}) check_dtype("token_logprobs", "rows or ids", t, DType::kI32);
  for (const Tensor& t : {a.logits, a.norms, a.out})
    check_dtype("token_logprobs", "logits, norms or out", t, DType::kF32);
  call(ctx, "token_logprobs", ctx.ops.token_logprobs, a);
}

}  // namespace nanovllm
