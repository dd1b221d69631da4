#include "ops/attention.h"

#include "ops/attention_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class AttentionTest : public OpTest {
 protected:
  // Row `token` of `out` against the definition over the first num_keys keys of its sequence.
  void compare(WorstError& worst, const AttentionShape& shape, const AttentionSequence& sequence,
               int64_t token, int64_t num_keys, std::span<const float> out);
};
INSTANTIATE_OP_TEST(AttentionTest);

// The bound, for one query with keys i, u = 2^-24, D = head_dim, C = chunks of 128 keys:
//   a score is a chain of D fused multiply-adds: error at most δ = D u max Σ|q k|;
//   its exponent (s − m) scale rounds twice, and is taken apart into at most (s − m_c) and the steps of the
//   running maximum, together at most 2 X, X = scale (max s − min s): 2 u · 2 X; each exp is within 2 ULP, 4
//   u, and each merge multiplies and adds: 7 u for each chunk. So a weight is wrong by the factor 1 + ρ, ρ =
//   2 scale δ + 4 u X + 7 u (C + 1), in l as in o. l adds 8 lanes' terms and a tree of 4 levels, o is a chain
//   of 128 keys, merges are in ρ; the quotient rounds once. |error| <= (2 ρ + (8 + 4 + 128 + 1) u) Σ p |v| /
//   Σ p
// Weights below e^-87.3 are taken as 0: 1e-38 of max |v| for each key. 1.01 covers the terms of second order.
void AttentionTest::compare(WorstError& worst, const AttentionShape& shape, const AttentionSequence& sequence,
                            int64_t token, int64_t num_keys, std::span<const float> out) {
  const size_t head_dim = size_t(shape.head_dim), group = size_t(shape.num_heads / shape.num_kv_heads);
  const double scale = shape.scale(), chunks = double((num_keys + kAttentionChunk - 1) / kAttentionChunk);
  for (size_t h = 0; h < size_t(shape.num_heads); ++h) {
    const std::vector<double> q = doubles(sequence.q.row(token).subspan(h * head_dim, head_dim));
    std::vector<std::vector<double>> keys, values, magnitudes;
    double delta = 0, min_score = INFINITY, max_score = -INFINITY, max_value = 0;
    for (int64_t i = 0; i < num_keys; ++i) {
      keys.push_back(doubles(sequence.k.row(i).subspan(h / group * head_dim, head_dim)));
      values.push_back(doubles(sequence.v.row(i).subspan(h / group * head_dim, head_dim)));
      magnitudes.push_back(values.back());
      double score = 0, magnitude = 0;
      for (size_t d = 0; d < head_dim; ++d) {
        score += q[d] * keys.back()[d];
        magnitude += std::fabs(q[d] * keys.back()[d]);
        double& m = magnitudes.back()[d];
        m = std::fabs(m);
        max_value = std::max(max_value, m);
      }
      delta = std::max(delta, double(head_dim) * kU * magnitude);
      min_score = std::min(min_score, score);
      max_score = std::max(max_score, score);
    }
    const std::vector<double> want = attention_reference(q, keys, values, scale);
    const std::vector<double> spread = attention_reference(q, keys, magnitudes, scale);
    const double rho = 2 * scale * delta + 4 * kU * scale * (max_score - min_score) + 7 * kU * (chunks + 1);
    for (size_t d = 0; d < head_dim; ++d)
      worst.add(out[h * head_dim + d], want[d],
                1.01 * (2 * rho + 141 * kU) * spread[d] + 1e-38 * double(num_keys) * max_value,
                ("head " + std::to_string(h) + " of token " + std::to_string(token)).c_str(), int64_t(d));
  }
}

// Around every border of 16 keys and of chunks of 128.
constexpr int64_t kKeyCounts[] = {1,  2,  15, 16,  17,  31,  32,  33,  47,  48,  49,  63,  64,  65,
                                  79, 81, 97, 111, 113, 127, 128, 129, 143, 145, 255, 256, 257, 273};

// Decodes: one query, so a task has as many rows as a kv head has queries: every height of a tile (1 to 8),
// with every width. The keys past num_keys are in the cache and must not be seen.
TEST_P(AttentionTest, EveryHeightWidthAndNumberOfKeys) {
  WorstError worst("error_of_bound");
  for (int head_dim : {8, 16, 32, 64, 80, 128, 256}) {
    for (int group = 1; group <= 8; ++group) {
      const AttentionShape shape{group, 1, head_dim, 16};
      const AttentionSequence sequence(shape, 280, uint32_t(head_dim + group));
      PagedCache cache(ctx, shape, 18);
      cache.store({&sequence, 0, 280});
      std::vector<PagedCache::Part> parts;
      for (int64_t n : kKeyCounts) parts.push_back({&sequence, n - 1, n});
      const Floats out = cache.attend(parts);
      for (size_t i = 0; i < parts.size(); ++i)
        if (group == 1 || group == 8 || i % 7 == size_t(group) % 7)  // the rest: attention_bits_test.cpp
          compare(worst, shape, sequence, parts[i].begin, parts[i].end, out.row(int64_t(i)));
    }
  }
}

TEST_P(AttentionTest, PrefillIsCausal) {
  WorstError worst("error_of_bound");
  for (const AttentionShape& shape :
       {AttentionShape{2, 1, 16, 16}, AttentionShape{3, 3, 80, 32}, AttentionShape{6, 2, 8, 256}}) {
    const AttentionSequence sequence(shape, 150, 5);
    const Floats out = whole_prefill(ctx, shape, sequence);
    for (int64_t t = 0; t < 150; t += t < 20 || t > 120 ? 1 : 9)
      compare(worst, shape, sequence, t, t + 1, out.row(t));
  }
}

// Scores that differ by hundreds: most weights vanish, the maximum moves from chunk to chunk.
TEST_P(AttentionTest, LargeAndTinyScores) {
  WorstError worst("error_of_bound");
  for (float scale : {1e-8f, 1e-3f, 8.0f, 30.0f}) {
    const AttentionShape shape{2, 1, 32, 16};
    const AttentionSequence sequence(shape, 520, 9, scale);
    const Floats out = whole_prefill(ctx, shape, sequence);
    for (int64_t t : {0, 127, 128, 300, 511, 512, 519}) compare(worst, shape, sequence, t, t + 1, out.row(t));
  }
}

TEST_P(AttentionTest, OneKeyGivesItsValue) {  // l = exp(0) = 1: no rounding at all
  const AttentionShape shape{4, 2, 24, 16};
  const AttentionSequence sequence(shape, 1, 3);
  const Floats out = whole_prefill(ctx, shape, sequence);
  for (int h = 0; h < 4; ++h)
    EXPECT_TRUE(
        same_bits(out.span().subspan(size_t(h) * 24, 24), sequence.v.span().subspan(size_t(h / 2) * 24, 24)));
}

// The scale is a factor of the scores: with 0 every key weighs the same.
TEST_P(AttentionTest, TakesTheScaleFromItsArguments) {
  const AttentionShape shape{1, 1, 16, 16};
  const AttentionSequence sequence(shape, 4, 3);
  PagedCache cache(ctx, shape, 1);
  cache.store({&sequence, 0, 4});
  const Floats out = unwritten({1, 16});
  attention(ctx, {.out = out,
                  .q = sequence.q.tensor().slice(3, 1),
                  .cache = cache.layer(),
                  .meta = {.cu_seqlens_q = ints({0, 1}),
                           .seq_lens = ints({4}),
                           .block_table = Tensor::view(ints({0}).tensor().data, DType::kI32, {1, 1})},
                  .scale = 0});
  for (size_t d = 0; d < 16; ++d) {
    double mean = 0;
    for (int64_t i = 0; i < 4; ++i) mean += double(sequence.v.row(i)[d]) / 4;
    EXPECT_NEAR(out[d], mean, 4 * kU);  // three additions of numbers below 1, up to 4 in all; exact quarter
  }
}

TEST_P(AttentionTest, NoTokensAndSequencesWithoutTokens) {
  const AttentionShape shape{2, 1, 16, 16};
  const AttentionSequence a(shape, 20, 1), b(shape, 3, 2);
  PagedCache cache(ctx, shape, 4);
  EXPECT_EQ(cache.attend({}).size(), 0u);
  cache.store({&a, 0, 20});
  const Floats out = cache.step({{&a, 20, 20}, {&b, 0, 3}, {&a, 20, 20}});
  EXPECT_TRUE(same_bits(out.span(), whole_prefill(ctx, shape, b).span()));
}

// q is a part of packed qkv rows, and out of a wider matrix.
TEST_P(AttentionTest, StridedQueriesAndOutputs) {
  const AttentionShape shape{4, 2, 16, 16};
  const AttentionSequence sequence(shape, 21, 4);
  const Floats want = whole_prefill(ctx, shape, sequence);
  PagedCache cache(ctx, shape, 2, 7);
  cache.store({&sequence, 0, 21});
  Floats qkv({21, 8 * 16}, kNan), wide({21, 100}, 7.0f);
  for (int64_t t = 0; t < 21; ++t) std::copy_n(sequence.q.row(t).data(), 64, qkv.data() + t * 128);
  const std::vector<int32_t>& blocks = cache.blocks_of(sequence, 21);
  Tensor out = wide;
  out.shape[1] = 64;
  const Ints table = ints({blocks[0], blocks[1]});
  attention(ctx, {.out = out,
                  .q = heads(qkv, 0, 4, 16),
                  .cache = cache.layer(),
                  .meta = {.cu_seqlens_q = ints({0, 21}),
                           .seq_lens = ints({21}),
                           .block_table = Tensor::view(table.tensor().data, DType::kI32, {1, 2})},
                  .scale = shape.scale()});
  for (int64_t t = 0; t < 21; ++t) {
    EXPECT_TRUE(same_bits(wide.row(t).first(64), want.row(t)));
    for (float v : wide.row(t).subspan(64)) ASSERT_EQ(v, 7.0f);
  }
}

// A NaN that a query does not see must not touch it, although another query of the same task sees it.
TEST_P(AttentionTest, ANanIsSeenByNobodyBeforeIt) {
  const AttentionShape shape{2, 1, 32, 16};
  const AttentionSequence clean(shape, 200, 6), mate(shape, 90, 7);
  const Floats want = whole_prefill(ctx, shape, clean), want_mate = whole_prefill(ctx, shape, mate);
  for (int64_t sick : {0, 1, 15, 16, 63, 127, 128, 130, 199}) {
    for (bool in_key : {true, false}) {
      AttentionSequence sequence = clean;
      Floats& array = in_key ? sequence.k : sequence.v;
      for (size_t d = 0; d < 32; ++d) array[size_t(sick) * 32 + d] = kNan;
      PagedCache cache(ctx, shape, 30);
      const Floats out = cache.step({{&mate, 0, 50}, {&sequence, 0, 200}});
      EXPECT_TRUE(same_bits(out.span().first(50 * 64), want_mate.span().first(50 * 64)));
      EXPECT_TRUE(
          same_bits(out.span().subspan(50 * 64, size_t(sick) * 64), want.span().first(size_t(sick) * 64)))
          << "NaN at " << sick;
      for (int64_t t = sick; t < 200; ++t)
        for (float v : out.row(50 + t))
          ASSERT_TRUE(std::isnan(v)) << "NaN at " << sick << " hidden from " << t;
    }
  }
}

}  // namespace
}  // namespace nanovllm
