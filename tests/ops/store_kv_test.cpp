// Keys and values into the paged cache, read back through attention: with one key in sight, attention gives
// its value.
#include "ops/attention_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class StoreKvTest : public OpTest {};
INSTANTIATE_OP_TEST(StoreKvTest);
class StoreKvLayout : public OpTest {};  // the CPU's own
INSTANTIATE_TEST_SUITE_P(Sets, StoreKvLayout, testing::ValuesIn(instruction_sets()),
                         [](const auto& info) { return info.param; });

TEST_P(StoreKvTest, SlotMinusOneWritesNothing) {
  const AttentionShape shape{2, 2, 24, 16};
  for (int64_t tokens : {1, 3, 40}) {
    const AttentionSequence sequence(shape, tokens, 1);
    PagedCache cache(ctx, shape, 4);
    const std::vector<std::byte> before = cache.bytes();
    const Ints none({tokens}, -1);
    store_kv(ctx, {.cache = cache.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = none});
    EXPECT_EQ(cache.bytes(), before) << tokens;
  }
}

TEST_P(StoreKvTest, NoTokens) {
  const AttentionShape shape{2, 2, 24, 16};
  const AttentionSequence sequence(shape, 0, 1);
  PagedCache cache(ctx, shape, 1);
  const std::vector<std::byte> before = cache.bytes();
  store_kv(ctx, {.cache = cache.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = Ints({0})});
  EXPECT_EQ(cache.bytes(), before);
}

// A step with padding among its tokens leaves the same bytes as one without: nothing else was written.
TEST_P(StoreKvTest, PaddingAmongTokens) {
  const AttentionShape shape{2, 2, 24, 32};
  const AttentionSequence sequence(shape, 50, 2);
  PagedCache padded(ctx, shape, 4), plain(ctx, shape, 4);
  Ints slots({50});
  for (int32_t t = 0; t < 50; ++t) slots[size_t(t)] = t % 3 == 1 ? -1 : (t * 37 + 5) % 128;
  store_kv(ctx, {.cache = padded.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = slots});
  for (int64_t t = 0; t < 50; ++t)
    if (t % 3 != 1)
      store_kv(ctx, {.cache = plain.layer(),
                     .k = sequence.k.tensor().slice(t, 1),
                     .v = sequence.v.tensor().slice(t, 1),
                     .slot_mapping = slots.tensor().slice(t, 1)});
  EXPECT_EQ(padded.bytes(), plain.bytes());
}

// The number of floats that a token writes: its own heads and no more, in the keys and in the values.
TEST_P(StoreKvTest, ATokenWritesItsOwnSlotOnly) {
  const AttentionShape shape{3, 3, 20, 16};
  const AttentionSequence sequence(shape, 1, 3);
  for (int32_t slot : {0, 15, 16, 31, 47}) {
    PagedCache cache(ctx, shape, 3);
    const std::vector<std::byte> before = cache.bytes();
    store_kv(ctx, {.cache = cache.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = ints({slot})});
    const std::vector<std::byte> after = cache.bytes();
    size_t changed = 0;
    for (size_t i = 0; i < before.size(); i += 4) changed += std::memcmp(&before[i], &after[i], 4) != 0;
    EXPECT_EQ(changed, 2u * 3 * 20);
  }
}

// Every slot of several blocks: one key in sight at a time, by a block table that names the block and a
// sequence that begins in it.
TEST_P(StoreKvTest, ValuesComeBackFromEveryFirstSlotOfABlock) {
  const AttentionShape shape{4, 2, 40, 16};
  const AttentionSequence sequence(shape, 6, 4);
  PagedCache cache(ctx, shape, 6);
  Ints slots({6});
  for (int32_t t = 0; t < 6; ++t) slots[size_t(t)] = (5 - t) * 16;
  store_kv(ctx, {.cache = cache.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = slots});
  for (int32_t t = 0; t < 6; ++t) {
    const Floats out = unwritten({1, 160});
    const Ints table = ints({5 - t});
    attention(ctx, {.out = out,
                    .q = sequence.q.tensor().slice(t, 1),
                    .cache = cache.layer(),
                    .meta = {.cu_seqlens_q = ints({0, 1}),
                             .seq_lens = ints({1}),
                             .block_table = Tensor::view(table.tensor().data, DType::kI32, {1, 1})}});
    for (size_t h = 0; h < 4; ++h)
      EXPECT_TRUE(same_bits(out.span().subspan(h * 40, 40), sequence.v.row(t).subspan(h / 2 * 40, 40)));
  }
}

// k and v as parts of packed qkv rows.
TEST_P(StoreKvTest, StridedKeysAndValues) {
  const AttentionShape shape{2, 2, 24, 16};
  for (int64_t tokens : {3, 30}) {  // few tokens are stored by one thread, many by one for each head
    const AttentionSequence sequence(shape, tokens, 5);
    Floats qkv({tokens, 6 * 24}, kNan);
    for (int64_t t = 0; t < tokens; ++t) {
      std::copy_n(sequence.k.row(t).data(), 48, qkv.data() + t * 144 + 48);
      std::copy_n(sequence.v.row(t).data(), 48, qkv.data() + t * 144 + 96);
    }
    PagedCache packed(ctx, shape, 2), plain(ctx, shape, 2);
    Ints slots({tokens});
    for (int32_t t = 0; t < tokens; ++t) slots[size_t(t)] = 31 - t;
    store_kv(ctx, {.cache = plain.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = slots});
    store_kv(ctx, {.cache = packed.layer(),
                   .k = heads(qkv, 2, 2, 24),
                   .v = heads(qkv, 4, 2, 24),
                   .slot_mapping = slots});
    EXPECT_EQ(packed.bytes(), plain.bytes());
  }
}

TEST_P(StoreKvLayout, BytesOfABlock) {
  EXPECT_EQ(kv_block_bytes(ctx.ops, DType::kF32, 16, 2, 64), 16u * 2 * 64 * 4);
  EXPECT_EQ(kv_block_bytes(ctx.ops, DType::kF32, 32, 1, 40),
            32u * 48 * 4);  // rows of values hold whole lanes
  EXPECT_EQ(kv_block_bytes(ctx.ops, DType::kF32, 5, 2, 64), 16u * 2 * 64 * 4);  // as positions do
}

// A copied block is what storing its tokens there would have made of it, in all layers, keys and values, one copy after
// the other; nothing else changes.
TEST_P(StoreKvTest, CopiesBlocks) {
  for (const AttentionShape& shape :
       {AttentionShape{2, 2, 24, 16}, AttentionShape{2, 2, 64, 32}, AttentionShape{3, 3, 20, 5}}) {
    const AttentionSequence a(shape, shape.block_size, 7), b(shape, shape.block_size, 8);
    const auto store = [&](PagedCache& cache, const AttentionSequence& sequence, int block) {
      Ints slots({shape.block_size});
      for (int t = 0; t < shape.block_size; ++t) slots[size_t(t)] = block * shape.block_size + t;
      store_kv(ctx, {.cache = cache.layer(), .k = sequence.k, .v = sequence.v, .slot_mapping = slots});
    };
    PagedCache first(ctx, shape, 6), second(ctx, shape, 6), want_first(ctx, shape, 6),
        want_second(ctx, shape, 6);
    store(first, a, 0);
    store(first, b, 4);
    store(second, b, 0);
    store(second, a, 4);
    const std::vector<KvLayer> layers{first.layer(), second.layer()};
    Ints pairs({3, 2});
    const std::vector<int32_t> copies{0, 3, 4, 0, 3, 1};
    std::copy(copies.begin(), copies.end(), pairs.data());
    copy_blocks(ctx, {.layers = layers, .block_copies = pairs});
    for (const int block : {3, 1}) store(want_first, a, block);
    for (const int block : {4, 0}) store(want_first, b, block);
    for (const int block : {3, 1}) store(want_second, b, block);
    for (const int block : {4, 0}) store(want_second, a, block);
    EXPECT_EQ(first.bytes(), want_first.bytes());
    EXPECT_EQ(second.bytes(), want_second.bytes());
  }
}

}  // namespace
}  // namespace nanovllm
