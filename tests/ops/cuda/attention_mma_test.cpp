// Attention by tensor cores: near its double-precision definition, and the same bits however a prompt is cut.
#include <numeric>
#include <random>

#include "ops/cuda/device_values.h"

namespace nanovllm {
namespace {

using namespace test;

struct HeadShape {
  int num_heads, num_kv_heads, head_dim, block_size;
};

class AttentionMmaTest : public MmaTest {
 protected:
  // Sequences with values of T, and a cache of shuffled blocks.
  struct Case {
    HeadShape shape;
    std::vector<int> lengths;
    std::vector<std::vector<float>> q, k, v;         // [length, heads, head_dim] of each sequence
    std::vector<std::vector<int32_t>> block_tables;  // of each sequence
    std::unique_ptr<DeviceBuffer> k_cache, v_cache;
    KvLayer layer;
  };

  Case make_case(const HeadShape& shape, std::vector<int> lengths, uint32_t seed = 1) {
    Case c{.shape = shape,
           .lengths = std::move(lengths),
           .q = {},
           .k = {},
           .v = {},
           .block_tables = {},
           .k_cache = {},
           .v_cache = {},
           .layer = {}};
    int num_blocks = 1;
    for (const int length : c.lengths) num_blocks += (length + shape.block_size - 1) / shape.block_size;
    std::vector<int32_t> blocks(static_cast<size_t>(num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed));
    for (size_t i = 0; i < c.lengths.size(); ++i) {
      const size_t length = size_t(c.lengths[i]), row = size_t(shape.head_dim);
      c.q.push_back(
          random_values(length * size_t(shape.num_heads) * row, seed + 10 * uint32_t(i), dtype(), 2));
      c.k.push_back(
          random_values(length * size_t(shape.num_kv_heads) * row, seed + 10 * uint32_t(i) + 1, dtype(), 2));
      c.v.push_back(
          random_values(length * size_t(shape.num_kv_heads) * row, seed + 10 * uint32_t(i) + 2, dtype()));
      c.block_tables.emplace_back();
      for (int b = 0; b * shape.block_size < c.lengths[i]; ++b) {
        c.block_tables.back().push_back(blocks.back());
        blocks.pop_back();
      }
    }
    const size_t bytes = size_t(num_blocks) * kv_block_bytes(ctx().ops, dtype(), shape.block_size,
                                                             shape.num_kv_heads, shape.head_dim);
    c.k_cache = std::make_unique<DeviceBuffer>(cuda_device(), bytes, "keys");
    c.v_cache = std::make_unique<DeviceBuffer>(cuda_device(), bytes, "values");
    const std::vector<std::byte> nan(bytes, std::byte{0xFF});  // what is not written is no number
    cuda_device().upload(c.k_cache->data(), nan.data(), bytes);
    cuda_device().upload(c.v_cache->data(), nan.data(), bytes);
    c.layer = {c.k_cache->data(), c.v_cache->data(),  dtype(),       num_blocks,
               shape.block_size,  shape.num_kv_heads, shape.head_dim};
    return c;
  }

  // Tokens [begin, end) of a sequence.
  struct Part {
    size_t sequence;
    int begin, end;
  };

  // Stores and attends these parts in one step: their outputs, end to end.
  std::vector<float> step(const Case& c, const std::vector<Part>& parts) {
    const HeadShape& s = c.shape;
    std::vector<float> packed;  // [tokens, num_heads + 2 num_kv_heads, head_dim], as a model has them
    std::vector<int32_t> slots, cu_seqlens{0}, seq_lens, tables;
    size_t most = 0;
    for (const Part& p : parts) most = std::max(most, c.block_tables[p.sequence].size());
    for (const Part& p : parts) {
      std::vector<int32_t> table = c.block_tables[p.sequence];
      for (int t = p.begin; t < p.end; ++t) {
        const auto append = [&](const std::vector<float>& from, int num_heads) {
          const auto row = std::ptrdiff_t(num_heads) * s.head_dim;
          packed.insert(packed.end(), from.begin() + t * row, from.begin() + (t + 1) * row);
        };
        append(c.q[p.sequence], s.num_heads);
        append(c.k[p.sequence], s.num_kv_heads);
        append(c.v[p.sequence], s.num_kv_heads);
        slots.push_back(table[size_t(t / s.block_size)] * s.block_size + t % s.block_size);
      }
      table.resize(most, -1);
      tables.insert(tables.end(), table.begin(), table.end());
      cu_seqlens.push_back(cu_seqlens.back() + p.end - p.begin);
      seq_lens.push_back(p.end);
    }
    const int64_t tokens = cu_seqlens.back(), seqs = int64_t(parts.size());
    const DeviceValues qkv(dtype(), {tokens, int64_t(s.num_heads + 2 * s.num_kv_heads) * s.head_dim}, packed),
        out(dtype(), {tokens, int64_t(s.num_heads) * s.head_dim}), d_slots({tokens}, slots),
        d_cu({seqs + 1}, cu_seqlens), d_lens({seqs}, seq_lens), d_tables({seqs, int64_t(most)}, tables);
    const auto part = [&](int first, int count) { return heads(qkv, first, count, s.head_dim); };
    store_kv(ctx(), {.cache = c.layer,
                     .k = part(s.num_heads, s.num_kv_heads),
                     .v = part(s.num_heads + s.num_kv_heads, s.num_kv_heads),
                     .slot_mapping = d_slots});
    const AttentionMeta meta{
        .cu_seqlens_q = d_cu, .seq_lens = d_lens, .block_table = d_tables, .slot_mapping = d_slots};
    const auto attend = [&](const AttentionMeta& planned) {
      attention(ctx(), {.out = out,
                        .q = part(0, s.num_heads),
                        .cache = c.layer,
                        .meta = planned,
                        .scale = 1 / std::sqrt(float(s.head_dim))});
    };
    attend(meta);
    const std::vector<std::byte> plain = out.bytes();
    const Arena::Scope scope(ctx().arena);
    const AttentionMeta planned = plan_attention(ctx(), meta, c.layer, s.num_heads);
    for (int layer = 0; layer < 2; ++layer) {  // the plan serves all of a step
      const std::vector<std::byte> nan(out.bytes().size(), std::byte{0xFF});
      cuda_device().upload(out.tensor().data, nan.data(), nan.size());
      attend(planned);
      EXPECT_TRUE(out.bytes() == plain) << "layer " << layer;
    }
    return out.floats();
  }

  // Sequence i alone, in chunks.
  std::vector<float> in_chunks(const Case& c, size_t sequence, int chunk) {
    std::vector<float> all;
    for (int begin = 0; begin < c.lengths[sequence]; begin += chunk) {
      const std::vector<float> part =
          step(c, {{sequence, begin, std::min(begin + chunk, c.lengths[sequence])}});
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
};
INSTANTIATE_MMA_TEST(AttentionMmaTest);

constexpr HeadShape kHeadShapes[] = {{2, 1, 16, 64},  {4, 4, 32, 16}, {8, 2, 64, 64}, {16, 8, 128, 64},
                                     {16, 1, 64, 64}, {6, 2, 128, 5}, {8, 1, 128, 1}};

TEST_P(AttentionMmaTest, IsItsDefinition) {
  for (const HeadShape& shape : kHeadShapes) {
    const Case c = make_case(shape, {1, 17, 130, 300});
    std::vector<Part> parts;
    for (size_t i = 0; i < c.lengths.size(); ++i) parts.push_back({i, 0, c.lengths[i]});
    const std::vector<float> got = step(c, parts);
    // p is rounded to T, and so is out: half an ulp each of values up to max |v| = 1; ex2.approx is within 2^-22, and the
    // scores' chain, of products up to 4, moves p by less than 2^-15.
    WorstError worst("shares_of_the_bound");
    size_t row = 0;
    const int group = shape.num_heads / shape.num_kv_heads;
    for (size_t i = 0; i < c.lengths.size(); ++i)
      for (int t = 0; t < c.lengths[i]; ++t)
        for (int h = 0; h < shape.num_heads; ++h, ++row) {
          const auto head_of = [&](const std::vector<float>& from, int token, int heads, int head) {
            const auto first = from.begin() + std::ptrdiff_t((size_t(token) * size_t(heads) + size_t(head)) *
                                                             size_t(shape.head_dim));
            return std::vector<double>(first, first + shape.head_dim);
          };
          if (t % 7 != 0 && t + 1 != c.lengths[i]) continue;
          std::vector<std::vector<double>> keys, values;
          for (int key = 0; key <= t; ++key) {
            keys.push_back(head_of(c.k[i], key, shape.num_kv_heads, h / group));
            values.push_back(head_of(c.v[i], key, shape.num_kv_heads, h / group));
          }
          const auto want = attention_reference(head_of(c.q[i], t, shape.num_heads, h), keys, values,
                                                1 / std::sqrt(double(shape.head_dim)));
          for (size_t d = 0; d < want.size(); ++d)
            worst.add(got[row * size_t(shape.head_dim) + d], want[d],
                      half_ulp(1) + half_ulp(want[d]) + 0x1p-14, "out", int64_t(row));
        }
  }
}

TEST_P(AttentionMmaTest, ChunksAndCompanyChangeNoBit) {
  for (const HeadShape& shape : kHeadShapes) {
    const Case c = make_case(shape, {1, 64, 65, 129, 515}, 3);
    std::vector<float> together;
    std::vector<Part> parts;
    for (size_t i = 0; i < c.lengths.size(); ++i) parts.push_back({i, 0, c.lengths[i]});
    together = step(c, parts);
    std::vector<float> alone;
    for (size_t i = 0; i < c.lengths.size(); ++i) {
      const std::vector<float> one = in_chunks(c, i, 1 << 20);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(same_bits(together, alone)) << shape.head_dim;
    for (const int chunk : {1, 16, 63, 64, 65, 127, 128, 129}) {
      std::vector<float> cut;
      for (size_t i = 0; i < c.lengths.size(); ++i) {
        const std::vector<float> one = in_chunks(c, i, chunk);
        cut.insert(cut.end(), one.begin(), one.end());
      }
      EXPECT_TRUE(same_bits(cut, alone)) << "head_dim " << shape.head_dim << ", chunks of " << chunk;
    }
  }
}

TEST_P(AttentionMmaTest, DecodesAndChunksInOneStep) {
  const HeadShape shape{16, 8, 128, 64};
  const Case c = make_case(shape, {700, 300, 257, 40}, 5);
  std::vector<std::vector<float>> want;
  for (size_t i = 0; i < c.lengths.size(); ++i) want.push_back(in_chunks(c, i, 1 << 20));
  // All but the last are at their last token; the fourth brings a chunk in the middle of the batch.
  for (const std::vector<Part>& parts :
       {std::vector<Part>{{0, 699, 700}, {3, 10, 40}, {1, 299, 300}, {2, 256, 257}},
        std::vector<Part>{{2, 256, 257}, {1, 299, 300}, {0, 699, 700}}}) {
    const std::vector<float> got = step(c, parts);
    const size_t row = size_t(shape.num_heads) * size_t(shape.head_dim);
    size_t at = 0;
    for (const Part& p : parts) {
      const size_t count = size_t(p.end - p.begin) * row;
      EXPECT_TRUE(same_bits(std::span(got).subspan(at, count),
                            std::span(want[p.sequence]).subspan(size_t(p.begin) * row, count)));
      at += count;
    }
  }
}

// Tiles of 128 rows, of whole prompts and behind a prefix, against as many rows at a time as one warp has.
TEST_P(AttentionMmaTest, LongPromptsOfAnyGroupAreTheSame) {
  for (const HeadShape& shape :
       {HeadShape{2, 2, 128, 64}, HeadShape{4, 2, 128, 64}, HeadShape{9, 3, 128, 128},
        HeadShape{4, 1, 128, 16}, HeadShape{10, 2, 128, 32}, HeadShape{8, 1, 128, 256},
        HeadShape{16, 1, 128, 64}}) {
    const int group = shape.num_heads / shape.num_kv_heads, few = std::max(1, 16 / group);
    const Case c = make_case(shape, {700, 1, 129, 300, 64, 257, 128}, 9);
    std::vector<Part> whole;
    for (size_t i = 0; i < c.lengths.size(); ++i) whole.push_back({i, 0, c.lengths[i]});
    const std::vector<float> got = step(c, whole);  // what lies behind the ends is no number
    std::vector<Part> pieces;
    for (const Part& p : whole)
      for (int t = 0; t < p.end; t += few) pieces.push_back({p.sequence, t, std::min(t + few, p.end)});
    const std::vector<float> want = step(c, pieces);
    EXPECT_TRUE(same_bits(got, want)) << "group " << group;

    std::vector<size_t> firsts{0};  // tokens before each sequence
    for (const int length : c.lengths) firsts.push_back(firsts.back() + size_t(length));
    const auto expect_same = [&](const std::vector<Part>& parts) {
      const std::vector<float> mixed = step(c, parts);
      const size_t row = size_t(shape.num_heads) * size_t(shape.head_dim);
      size_t at = 0;
      for (const Part& p : parts) {
        const size_t count = size_t(p.end - p.begin) * row;
        EXPECT_TRUE(same_bits(std::span(mixed).subspan(at, count),
                              std::span(want).subspan((firsts[p.sequence] + size_t(p.begin)) * row, count)))
            << "group " << group << ", " << parts.size() << " parts, sequence " << p.sequence << " from "
            << p.begin;
        at += count;
      }
    };
    expect_same(
        {{0, 64, 700}, {1, 0, 1}, {3, 0, 300}, {2, 128, 129}, {5, 255, 257}, {4, 1, 64}, {6, 0, 128}});
    expect_same({{2, 0, 129}, {0, 333, 461}, {5, 256, 257}, {3, 199, 264}});
    // A prompt behind more decodes than a warp looks at together.
    std::vector<Part> many(300, Part{5, 256, 257});
    many.push_back({0, 10, 700});
    many.push_back({3, 5, 290});
    expect_same(many);
  }
}

// More sequences than thread blocks, fewer than them, and one that is long: jobs of many shapes, cut and whole.
TEST_P(AttentionMmaTest, DecodesOfAnyCompanyAreTheSame) {
  for (const HeadShape& shape : {HeadShape{4, 2, 128, 64}, HeadShape{8, 1, 64, 16}, HeadShape{2, 2, 64, 128},
                                 HeadShape{8, 1, 128, 64}}) {
    std::vector<int> lengths{5000, 1, 16, 64, 65, 127, 128, 129, 300, 1023, 1024, 2049};
    const Case c = make_case(shape, lengths, 7);
    std::vector<std::vector<float>> alone;
    for (size_t i = 0; i < lengths.size(); ++i) {
      std::vector<float> whole = in_chunks(c, i, 1 << 20);
      const size_t row = size_t(shape.num_heads) * size_t(shape.head_dim);
      alone.emplace_back(whole.end() - std::ptrdiff_t(row), whole.end());
      EXPECT_TRUE(same_bits(step(c, {{i, lengths[i] - 1, lengths[i]}}), alone.back())) << lengths[i];
    }
    for (const size_t count : {3, 50, 700, 2600}) {
      // So many give more results than are kept, where a kv head has eight heads of 128: none is cut.
      if (count > 700 && shape.num_heads * shape.head_dim < 1024) continue;
      std::vector<Part> parts;
      for (size_t i = 0; i < count; ++i) {
        const size_t sequence = (i * 7 + 1) % lengths.size();
        parts.push_back({sequence, lengths[sequence] - 1, lengths[sequence]});
      }
      const std::vector<float> got = step(c, parts);
      const size_t row = alone[0].size();
      size_t num_wrong = 0;
      for (size_t i = 0; i < count; ++i)
        num_wrong += !same_bits(std::span(got).subspan(i * row, row),
                                std::span<const float>(alone[parts[i].sequence]));
      EXPECT_EQ(num_wrong, 0u) << count << " sequences";
    }
  }
}

// So that the tests above do not compare one kernel with itself.
TEST_P(AttentionMmaTest, HopperHasAPlanForWhatItServes) {
  if (cuda_device_name().find("capability 9.") == std::string::npos) GTEST_SKIP() << cuda_device_name();
  const bool compiled_at_start = std::getenv("CUDA_FORCE_PTX_JIT") != nullptr;  // for an older GPU
  const std::vector<int32_t> one{0, 1};
  const DeviceValues cu({2}, one), lens({1}, std::span(one).last(1)), table({1, 1}, std::span(one).first(1));
  const auto has_plan = [&](const HeadShape& s) {
    const Arena::Scope scope(ctx().arena);
    const KvLayer cache{
        .dtype = dtype(), .block_size = s.block_size, .num_kv_heads = s.num_kv_heads, .head_dim = s.head_dim};
    const AttentionMeta meta{.cu_seqlens_q = cu, .seq_lens = lens, .block_table = table, .slot_mapping = {}};
    return plan_attention(ctx(), meta, cache, s.num_heads).plan.defined();
  };
  for (const HeadShape& shape :
       {HeadShape{16, 8, 128, 64}, HeadShape{8, 1, 64, 16}, HeadShape{4, 4, 64, 256}})
    EXPECT_EQ(has_plan(shape), !compiled_at_start) << shape.head_dim;
  for (const HeadShape& shape :
       {HeadShape{4, 2, 32, 64}, HeadShape{16, 1, 128, 64}, HeadShape{4, 2, 64, 5}, HeadShape{4, 2, 64, 96}})
    EXPECT_FALSE(has_plan(shape)) << shape.head_dim;
}

TEST_P(AttentionMmaTest, OtherHeadDimsAreRefused) {
  const Case c = make_case({1, 1, 48, 16}, {3});
  expect_error(ErrorKind::kUnsupported, "head_dim is 48, want 16, 32, 64 or 128", [&] {
    step(c, {{0, 0, 3}});
  });
}

}  // namespace
}  // namespace nanovllm
