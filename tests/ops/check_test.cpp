// Every mistake that an op can be called with, and the exact sentence it gets.
#include "ops/check.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

constexpr ErrorKind kConfig = ErrorKind::kConfig;

TEST(CheckShape, BindsADimensionOnFirstSight) {
  Dim a{"a"}, b{"b"};
  check_shape("op", "x", Floats({2, 3}), {&a, &b});
  EXPECT_EQ(a.size, 2);
  EXPECT_EQ(b.size, 3);
  check_shape("op", "y", Floats({3, 2}), {&b, &a});
  expect_message(kConfig, "op: z is [3, 3] f32, want [b=3, a=2]", [&] {
    check_shape("op", "z", Floats({3, 3}), {&b, &a});
  });
}

TEST(CheckShape, RankAndMissing) {
  Dim a{"a"}, b{"b", 4};
  expect_message(kConfig, "op: x is [4] f32, want [a, b=4]", [&] {
    check_shape("op", "x", Floats({4}), {&a, &b});
  });
  expect_message(kConfig, "op: x is missing, want [a, b=4]", [&] {
    check_shape("op", "x", Tensor(), {&a, &b});
  });
  EXPECT_EQ(a.size, -1);  // a shape that was refused binds nothing
}

TEST(CheckShape, TheLastDimensionIsContiguous) {
  const Floats x({4, 6});
  Tensor column = x;
  column.stride[1] = 2;
  column.shape[1] = 3;
  Dim a{"a"}, b{"b"};
  expect_message(kConfig, "op: x is [4, 3] f32 with a strided last dimension, want [a=4, b=3]", [&] {
    check_shape("op", "x", column, {&a, &b});
  });
}

TEST(CheckDType, NamesBoth) {
  check_dtype("op", "x", Floats({1}), DType::kF32);
  expect_message(kConfig, "op: ids is [2] f32, want i32",
                 [] { check_dtype("op", "ids", Floats({2}), DType::kI32); });
}

// Each op with arguments that are right; a test makes one of them wrong.
class OpErrors : public testing::Test {
 protected:
  OpContext op{cpu_ops()};
  Context& ctx = op.ctx;
  StoredWeight w{ctx, DType::kF32, Floats({5, 8})};
  Floats x{{3, 8}}, y{{3, 5}}, parts{{4, 3, 8}}, heads_q{{3, 2, 8}}, heads_k{{3, 1, 8}}, table{{10, 8}};
  Floats weight{{8}}, short_weight{{2}}, logits{{3, 5}}, floats3{{3}};
  Ints ids{{3}}, two_ids{{2}}, seeds{{3, 2}}, cu{{2}}, one{{1}}, block_table{{1, 1}};
  DeviceBuffer cache_memory{host_device(), 2 * 16 * 16 * 4, "cache"};
  KvLayer cache{cache_memory.data(),
                static_cast<std::byte*>(cache_memory.data()) + 16 * 16 * 4,
                DType::kF32,
                1,
                16,
                1,
                8};

  EmbeddingArgs embedding_args{.out = x, .token_ids = ids, .table = w.weight};
  LinearArgs linear_args{.out = y, .x = x, .weight = w.weight};
  RmsNormArgs rms_norm_args{.out = x, .x = x, .weight = weight};
  AddRmsNormArgs add_rms_norm_args{.out = x, .partial_sums = parts, .residual = x, .weight = weight};
  RopeArgs rope_args{.q = heads_q, .k = heads_k, .positions = ids, .cos_sin = table};
  Floats gate_up{{3, 16}};
  SiluAndMulArgs silu_args{.out = x, .gate_up = gate_up};
  StoreKvArgs store_args{.cache = cache, .k = heads_k, .v = heads_k, .slot_mapping = ids};
  AttentionArgs attention_args{.out = Tensor::view(gate_up.data(), DType::kF32, {3, 16}),
                               .q = heads_q,
                               .cache = cache,
                               .meta = {.cu_seqlens_q = cu, .seq_lens = one, .block_table = block_table}};
  SumSegmentsArgs sum_args{.out = x, .partial_sums = parts.tensor().slice(0, 2)};
  GatherRowsArgs gather_args{.out = parts.tensor()[0], .x = x, .indices = ids};
  SampleArgs sample_args{.out = ids,
                         .logits = logits,
                         .temperature = floats3,
                         .top_k = ids,
                         .top_p = floats3,
                         .min_p = floats3,
                         .seeds = seeds,
                         .positions = ids,
                         .sample_indices = ids,
                         .num_valid_tokens = 5};
  Ints edit_rows{{1}}, edit_begins{{2}}, edit_ids{{2}}, masked_rows{{2}}, masks{{2, 1}};
  Floats penalties{{1}}, addends{{2}};
  EditLogitsArgs edit_args{.logits = logits,
                           .masked_rows = masked_rows,
                           .masks = masks,
                           .rows = edit_rows,
                           .begins = edit_begins,
                           .penalties = penalties,
                           .ids = edit_ids,
                           .addends = addends};
  Ints wanted{{2}}, top_ids{{2, 4}};
  Floats norms{{2, 2}}, tops{{2, 4}}, token{{2, 1}};
  TopLogprobsArgs top_args{
      .logits = logits, .rows = wanted, .norms = norms, .top_ids = top_ids, .top_logprobs = tops};
  TokenLogprobsArgs token_args{.logits = logits, .rows = wanted, .norms = norms, .ids = ids, .out = token};
  Floats source{{2, 8}};
  StoreWeightArgs store_weight_args{
      .weight = w.weight,
      .rows = {reinterpret_cast<const std::byte*>(source.data()), DType::kF32, 2, 8, 8},
      .first_row = 1};

  void SetUp() override { cu[1] = 3, one[0] = 3; }
};

TEST_F(OpErrors, ArgumentsThatAreRightPass) {
  embedding(ctx, embedding_args);
  linear(ctx, linear_args);
  rms_norm(ctx, rms_norm_args);
  add_rms_norm(ctx, add_rms_norm_args);
  rope(ctx, rope_args);
  silu_and_mul(ctx, silu_args);
  store_kv(ctx, store_args);
  attention(ctx, attention_args);
  sum_segments(ctx, sum_args);
  gather_rows(ctx, gather_args);
  sample(ctx, sample_args);
  edit_logits(ctx, edit_args);
  restore_logits(ctx, edit_args);
  top_logprobs(ctx, top_args);
  token_logprobs(ctx, token_args);
  store_weight(ctx, store_weight_args);
}

TEST_F(OpErrors, WhatABackendLacksIsNamed) {
  const OpTable none{.backend = "none"};
  Context bare{.ops = none, .arena = op.arena, .comm = op.comm, .threads = &op.threads};
  const auto expect_none = [&](const std::string& name, auto function, const auto& args) {
    expect_message(ErrorKind::kUnsupported, name + ": no none implementation", [&] { function(bare, args); });
  };
  expect_none("embedding", embedding, embedding_args);
  expect_none("linear", linear, linear_args);
  expect_none("rms_norm", rms_norm, rms_norm_args);
  expect_none("add_rms_norm", add_rms_norm, add_rms_norm_args);
  expect_none("rope", rope, rope_args);
  expect_none("silu_and_mul", silu_and_mul, silu_args);
  expect_none("store_kv", store_kv, store_args);
  expect_none("attention", attention, attention_args);
  expect_none("sum_segments", sum_segments, sum_args);
  expect_none("gather_rows", gather_rows, gather_args);
  expect_none("sample", sample, sample_args);
  expect_none("edit_logits", edit_logits, edit_args);
  expect_none("restore_logits", restore_logits, edit_args);
  expect_none("top_logprobs", top_logprobs, top_args);
  expect_none("token_logprobs", token_logprobs, token_args);
  expect_none("store_weight", store_weight, store_weight_args);
}

TEST_F(OpErrors, DryOpsDoNothing) {
  const OpTable dry_table = dry_ops(cpu_ops());
  Context dry{.ops = dry_table, .arena = op.arena, .comm = op.comm};
  std::fill_n(x.data(), x.size(), 3.0f);
  embedding(dry, embedding_args);
  linear(dry, linear_args);
  rms_norm(dry, rms_norm_args);
  add_rms_norm(dry, add_rms_norm_args);
  rope(dry, rope_args);
  silu_and_mul(dry, silu_args);
  store_kv(dry, store_args);
  attention(dry, attention_args);
  sum_segments(dry, sum_args);
  gather_rows(dry, gather_args);
  sample(dry, sample_args);
  edit_logits(dry, edit_args);
  restore_logits(dry, edit_args);
  top_logprobs(dry, top_args);
  token_logprobs(dry, token_args);
  EXPECT_TRUE(same_bits(x.span(), Floats({3, 8}, 3.0f).span()));
  linear_args.x = y;  // shapes are checked all the same
  EXPECT_THROW(linear(dry, linear_args), Error);
}

TEST_F(OpErrors, TheCacheIsOneThatTheBackendReads) {
  store_args.cache.block_size = attention_args.cache.block_size = 0;
  expect_message(kConfig, "store_kv: block_size is 0, want at least 1", [&] { store_kv(ctx, store_args); });
  expect_message(kConfig, "attention: block_size is 0, want at least 1",
                 [&] { attention(ctx, attention_args); });
  store_args.cache.block_size = attention_args.cache.block_size = 16;
  store_args.cache.dtype = attention_args.cache.dtype = DType::kBF16;
  expect_message(kConfig, "store_kv: cache is bf16, want f32", [&] { store_kv(ctx, store_args); });
  expect_message(kConfig, "attention: cache is bf16, want f32", [&] { attention(ctx, attention_args); });
}

// Every argument of every op, with an element type that this backend does not read it as.
TEST_F(OpErrors, ElementTypes) {
  const auto each = [&](const std::string& name, auto function, const auto& args,
                        std::initializer_list<std::tuple<Tensor*, DType, const char*>> cases) {
    for (const auto& [argument, wrong, text] : cases) {
      const DType right = std::exchange(argument->dtype, wrong);
      expect_message(kConfig, name + ": " + text, [&, function] { function(ctx, args); });
      argument->dtype = right;
    }
  };
  constexpr DType kHalf = DType::kBF16, kInt = DType::kI32, kFloat = DType::kF32;
  auto& e = embedding_args;
  each("embedding", embedding, e, {{&e.out, kHalf, "out is [3, 8] bf16, want f32"}});
  auto& l = linear_args;
  each("linear", linear, l,
       {{&l.x, kHalf, "x is [3, 8] bf16, want f32"}, {&l.out, kHalf, "out is [3, 5] bf16, want f32"}});
  auto& n = rms_norm_args;
  each("rms_norm", rms_norm, n,
       {{&n.x, kHalf, "x is [3, 8] bf16, want f32"},
        {&n.out, kHalf, "out is [3, 8] bf16, want f32"},
        {&n.weight, kHalf, "weight is [8] bf16, want f32"}});
  auto& m = add_rms_norm_args;
  each("add_rms_norm", add_rms_norm, m,
       {{&m.residual, kHalf, "residual is [3, 8] bf16, want f32"},
        {&m.out, kHalf, "out is [3, 8] bf16, want f32"},
        {&m.weight, kHalf, "weight is [8] bf16, want f32"}});
  auto& r = rope_args;
  each("rope", rope, r,
       {{&r.q, kHalf, "q is [3, 2, 8] bf16, want f32"},
        {&r.k, kHalf, "k is [3, 1, 8] bf16, want f32"},
        {&r.positions, kFloat, "positions is [3] f32, want i32"},
        {&r.cos_sin, kHalf, "cos_sin is [10, 8] bf16, want f32"}});
  auto& u = silu_args;
  each("silu_and_mul", silu_and_mul, u,
       {{&u.out, kHalf, "out is [3, 8] bf16, want f32"},
        {&u.gate_up, kHalf, "gate_up is [3, 16] bf16, want f32"}});
  auto& s = store_args;
  each("store_kv", store_kv, s,
       {{&s.k, kHalf, "k is [3, 1, 8] bf16, want f32"},
        {&s.v, kHalf, "v is [3, 1, 8] bf16, want f32"},
        {&s.slot_mapping, kFloat, "slot_mapping is [3] f32, want i32"}});
  auto& a = attention_args;
  each("attention", attention, a,
       {{&a.q, kHalf, "q is [3, 2, 8] bf16, want f32"},
        {&a.out, kHalf, "out is [3, 16] bf16, want f32"},
        {&a.meta.seq_lens, kFloat, "meta is [1] f32, want i32"},
        {&a.meta.cu_seqlens_q, kFloat, "meta is [2] f32, want i32"},
        {&a.meta.block_table, kFloat, "meta is [1, 1] f32, want i32"}});
  each("sum_segments", sum_segments, sum_args,
       {{&sum_args.out, kHalf, "out is [3, 8] bf16, want f32"},
        {&sum_args.partial_sums, kHalf, "partial_sums is [2, 3, 8] bf16, want f32"}});
  auto& g = gather_args;
  each("gather_rows", gather_rows, g,
       {{&g.indices, kFloat, "indices is [3] f32, want i32"},
        {&g.out, kHalf, "out is [3, 8] bf16, want f32"}});
  auto& edits = edit_args;
  each("edit_logits", edit_logits, edits,
       {{&edits.logits, kHalf, "logits is [3, 5] bf16, want f32"},
        {&edits.masked_rows, kFloat, "masked_rows or masks is [2] f32, want i32"},
        {&edits.masks, kFloat, "masked_rows or masks is [2, 1] f32, want i32"},
        {&edits.rows, kFloat, "rows, begins or ids is [1] f32, want i32"},
        {&edits.begins, kFloat, "rows, begins or ids is [2] f32, want i32"},
        {&edits.ids, kFloat, "rows, begins or ids is [2] f32, want i32"},
        {&edits.penalties, kInt, "penalties or addends is [1] i32, want f32"},
        {&edits.addends, kInt, "penalties or addends is [2] i32, want f32"}});
  auto& top = top_args;
  each("top_logprobs", top_logprobs, top,
       {{&top.logits, kHalf, "logits, norms or top_logprobs is [3, 5] bf16, want f32"},
        {&top.rows, kFloat, "rows or top_ids is [2] f32, want i32"},
        {&top.norms, kInt, "logits, norms or top_logprobs is [2, 2] i32, want f32"},
        {&top.top_ids, kFloat, "rows or top_ids is [2, 4] f32, want i32"},
        {&top.top_logprobs, kInt, "logits, norms or top_logprobs is [2, 4] i32, want f32"}});
  auto& of_token = token_args;
  each("token_logprobs", token_logprobs, of_token,
       {{&of_token.logits, kHalf, "logits, norms or out is [3, 5] bf16, want f32"},
        {&of_token.rows, kFloat, "rows or ids is [2] f32, want i32"},
        {&of_token.norms, kInt, "logits, norms or out is [2, 2] i32, want f32"},
        {&of_token.ids, kFloat, "rows or ids is [3] f32, want i32"},
        {&of_token.out, kInt, "logits, norms or out is [2, 1] i32, want f32"}});
  auto& p = sample_args;
  const char* floats_text = "logits, temperature, top_p or min_p is [3] i32, want f32";
  const char* ints_text = "out, top_k, seeds, positions or sample_indices is [3] f32, want i32";
  each("sample", sample, p,
       {{&p.logits, kHalf, "logits, temperature, top_p or min_p is [3, 5] bf16, want f32"},
        {&p.temperature, kInt, floats_text},
        {&p.top_p, kInt, floats_text},
        {&p.min_p, kInt, floats_text},
        {&p.out, kFloat, ints_text},
        {&p.top_k, kFloat, ints_text},
        {&p.positions, kFloat, ints_text},
        {&p.sample_indices, kFloat, ints_text},
        {&p.seeds, kFloat, "out, top_k, seeds, positions or sample_indices is [3, 2] f32, want i32"}});
}

TEST_F(OpErrors, Embedding) {
  embedding_args.table.in_features = 7;
  expect_message(kConfig, "embedding: table is [5, 7], want [rows=5, hidden_size=8]",
                 [&] { embedding(ctx, embedding_args); });
  embedding_args.table = {};
  expect_message(kConfig, "embedding: table is [0, 0], want [rows=0, hidden_size=8]",
                 [&] { embedding(ctx, embedding_args); });
  embedding_args = {.out = x, .token_ids = floats3, .table = w.weight};
  expect_message(kConfig, "embedding: token_ids is [3] f32, want i32",
                 [&] { embedding(ctx, embedding_args); });
  embedding_args.token_ids = two_ids;
  expect_message(kConfig, "embedding: out is [3, 8] f32, want [num_tokens=2, hidden_size]",
                 [&] { embedding(ctx, embedding_args); });
}

TEST_F(OpErrors, Linear) {
  linear_args.x = Floats({3, 7});
  expect_message(kConfig, "linear: weight is [5, 8], want [out_features=5, in_features=7]",
                 [&] { linear(ctx, linear_args); });
  linear_args.x = x;
  linear_args.out = x;
  expect_message(kConfig, "linear: out is [3, 8] f32, want [num_tokens=3, out_features=5]",
                 [&] { linear(ctx, linear_args); });
  linear_args.out = Floats({3, 3, 5});
  expect_message(kConfig, "linear: in_features is 8, want a multiple of num_segments=3",
                 [&] { linear(ctx, linear_args); });
  linear_args.out = Tensor::view(y.data(), DType::kF32, {0, 3, 5});
  expect_message(kConfig, "linear: in_features is 8, want a multiple of num_segments=0",
                 [&] { linear(ctx, linear_args); });
  linear_args.out = y;
  linear_args.bias = weight;
  expect_message(kConfig, "linear: bias is [8] f32, want [out_features=5]",
                 [&] { linear(ctx, linear_args); });
}

TEST_F(OpErrors, Norms) {
  rms_norm_args.weight = short_weight;
  expect_message(kConfig, "rms_norm: weight is [2] f32, want [hidden_size=8]",
                 [&] { rms_norm(ctx, rms_norm_args); });
  rms_norm_args.x = heads_q;
  expect_message(kConfig, "rms_norm: out is [3, 8] f32, want [num_tokens=3, num_heads=2, head_dim=8]",
                 [&] { rms_norm(ctx, rms_norm_args); });
  rms_norm_args.out = heads_q;
  expect_message(kConfig, "rms_norm: weight is [2] f32, want [head_dim=8]",
                 [&] { rms_norm(ctx, rms_norm_args); });
  add_rms_norm_args.partial_sums = Floats({3, 3, 8});
  expect_message(kConfig, "add_rms_norm: num_segments is 3, want 1, 2 or 4",
                 [&] { add_rms_norm(ctx, add_rms_norm_args); });
  add_rms_norm_args.partial_sums = Tensor::view(parts.data(), DType::kBF16, {4, 3, 8});
  expect_message(kConfig, "add_rms_norm: partial_sums is [4, 3, 8] bf16, want f32",
                 [&] { add_rms_norm(ctx, add_rms_norm_args); });
  add_rms_norm_args.partial_sums = x;
  expect_message(kConfig,
                 "add_rms_norm: partial_sums is [3, 8] f32, want [num_segments, num_tokens, hidden_size]",
                 [&] { add_rms_norm(ctx, add_rms_norm_args); });
  add_rms_norm_args.partial_sums = parts;
  add_rms_norm_args.residual = y;
  expect_message(kConfig, "add_rms_norm: residual is [3, 5] f32, want [num_tokens=3, hidden_size=8]",
                 [&] { add_rms_norm(ctx, add_rms_norm_args); });
}

TEST_F(OpErrors, Rope) {
  rope_args.cos_sin = Floats({10, 7});
  expect_message(kConfig, "rope: rotary_dim is 7, want an even number up to head_dim=8",
                 [&] { rope(ctx, rope_args); });
  rope_args.cos_sin = Floats({10, 10});
  expect_message(kConfig, "rope: rotary_dim is 10, want an even number up to head_dim=8",
                 [&] { rope(ctx, rope_args); });
  rope_args.positions = two_ids;
  expect_message(kConfig, "rope: positions is [2] i32, want [num_tokens=3]", [&] { rope(ctx, rope_args); });
  rope_args.k = Floats({3, 1, 6});
  expect_message(kConfig, "rope: k is [3, 1, 6] f32, want [num_tokens=3, num_kv_heads=1, head_dim=8]",
                 [&] { rope(ctx, rope_args); });
}

TEST_F(OpErrors, SiluAndMul) {
  silu_args.gate_up = x;
  expect_message(kConfig, "silu_and_mul: gate_up is [3, 8] f32, want [num_tokens=3, 2 intermediate_size=16]",
                 [&] { silu_and_mul(ctx, silu_args); });
}

TEST_F(OpErrors, StoreKv) {
  store_args.cache.num_kv_heads = 2;
  expect_message(kConfig, "store_kv: cache has 2 heads of 8, want 1 of 8",
                 [&] { store_kv(ctx, store_args); });
  store_args.v = heads_q;
  expect_message(kConfig, "store_kv: v is [3, 2, 8] f32, want [num_tokens=3, num_kv_heads=1, head_dim=8]",
                 [&] { store_kv(ctx, store_args); });
  store_args.v = heads_k;
  store_args.slot_mapping = two_ids;
  expect_message(kConfig, "store_kv: slot_mapping is [2] i32, want [num_tokens=3]",
                 [&] { store_kv(ctx, store_args); });
}

TEST_F(OpErrors, Attention) {
  attention_args.cache.head_dim = 16;
  expect_message(kConfig, "attention: cache has 1 heads of 16, want 1 of 8",
                 [&] { attention(ctx, attention_args); });
  for (int num_kv_heads : {0, 3}) {
    attention_args.cache.head_dim = 8;
    attention_args.cache.num_kv_heads = num_kv_heads;
    expect_message(
        kConfig, "attention: num_heads is 2, want a multiple of num_kv_heads=" + std::to_string(num_kv_heads),
        [&] { attention(ctx, attention_args); });
  }
  attention_args.out = x;
  expect_message(kConfig, "attention: out is [3, 8] f32, want [num_tokens=3, num_heads * head_dim=16]",
                 [&] { attention(ctx, attention_args); });
  attention_args.out = gate_up;
  attention_args.meta.cu_seqlens_q = one;
  expect_message(kConfig, "attention: cu_seqlens_q is [1] i32, want [num_seqs + 1=2]",
                 [&] { attention(ctx, attention_args); });
  attention_args.meta.cu_seqlens_q = cu;
  attention_args.meta.block_table = cu;
  expect_message(kConfig, "attention: block_table is [2] i32, want [num_seqs=1, max_blocks]",
                 [&] { attention(ctx, attention_args); });
}

TEST_F(OpErrors, SumSegments) {
  sum_args.partial_sums = parts;
  expect_message(kConfig, "sum_segments: num_segments is 4, want 2", [&] { sum_segments(ctx, sum_args); });
  sum_args = {.out = y, .partial_sums = parts.tensor().slice(0, 2)};
  expect_message(kConfig, "sum_segments: out is [3, 5] f32, want [num_tokens=3, hidden_size=8]",
                 [&] { sum_segments(ctx, sum_args); });
}

TEST_F(OpErrors, GatherRows) {
  gather_args.indices = two_ids;
  expect_message(kConfig, "gather_rows: out is [3, 8] f32, want [num_rows=2, width=8]",
                 [&] { gather_rows(ctx, gather_args); });
}

TEST_F(OpErrors, EditLogits) {
  const auto refused = [&](Tensor& tensor, const Tensor& wrong, const std::string& text) {
    const Tensor right = std::exchange(tensor, wrong);
    expect_message(kConfig, "edit_logits: " + text, [&] { edit_logits(ctx, edit_args); });
    tensor = right;
  };
  refused(edit_args.masks, edit_ids, "masks is [2] i32, want [num_masked=2, (vocab_size + 31) / 32=1]");
  refused(edit_args.begins, edit_rows, "begins is [1] i32, want [num_edited + 1=2]");
  refused(edit_args.penalties, addends, "penalties is [2] f32, want [num_edited=1]");
  refused(edit_args.addends, penalties, "addends is [1] f32, want [num_edits=2]");
}

TEST_F(OpErrors, Logprobs) {
  Ints six{{2, 6}};
  Floats six_logprobs{{2, 6}};
  top_args.top_logprobs = six_logprobs;
  expect_message(kConfig, "top_logprobs: top_logprobs is [2, 6] f32, want [num_wanted=2, num_top=4]",
                 [&] { top_logprobs(ctx, top_args); });
  top_args.top_ids = six;
  expect_message(kConfig, "top_logprobs: num_top is 6, want at most 5", [&] { top_logprobs(ctx, top_args); });
  token_args.ids = wanted;
  expect_message(kConfig, "token_logprobs: ids is [2] i32, want [num_rows=3]",
                 [&] { token_logprobs(ctx, token_args); });
}

TEST_F(OpErrors, Sample) {
  for (int valid : {0, -1, 6}) {
    sample_args.num_valid_tokens = valid;
    expect_message(kConfig,
                   "sample: num_valid_tokens is " + std::to_string(valid) + ", want 1 to vocab_size=5",
                   [&] { sample(ctx, sample_args); });
  }
  sample_args.seeds = ids;
  expect_message(kConfig, "sample: seeds is [3] i32, want [num_rows=3, 2=2]",
                 [&] { sample(ctx, sample_args); });
  sample_args.top_p = two_ids;
  expect_message(kConfig, "sample: top_p is [2] i32, want [num_rows=3]", [&] { sample(ctx, sample_args); });
}

TEST_F(OpErrors, StoreWeight) {
  const StoreWeightArgs good = store_weight_args;
  const auto expect = [&](const std::string& text) {
    expect_message(kConfig, text, [&] { store_weight(ctx, store_weight_args); });
    store_weight_args = good;
  };
  store_weight_args.first_row = 4;
  expect("store_weight: rows are [2, 8] at 4, want them inside [5, 8]");
  store_weight_args.first_row = -1;
  expect("store_weight: rows are [2, 8] at -1, want them inside [5, 8]");
  store_weight_args.rows.in_features = 7;
  expect("store_weight: rows are [2, 7] at 1, want them inside [5, 8]");
  store_weight_args.rows.row_stride = 7;
  expect("store_weight: rows are [2, 8] at 1, want them inside [5, 8]");
  store_weight_args.weight.dtype = DType::kBF16;
  expect("store_weight: rows are f32, want bf16");
  store_weight_args.weight.dtype = DType::kBF16;
  store_weight_args.rows.dtype = DType::kF16;
  expect("store_weight: rows are f16, want bf16");
}

}  // namespace
}  // namespace nanovllm
