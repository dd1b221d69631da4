#include "ops/rope.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class RopeTest : public OpTest {};
INSTANTIATE_OP_TEST(RopeTest);

constexpr int64_t kPositions = 50;

// Cosines and sines of made-up angles, as layers/rotary_embedding.h lays them out.
Floats cos_sin_table(int64_t rotary_dim) {
  Floats table({kPositions, rotary_dim});
  const int64_t half = rotary_dim / 2;
  for (int64_t p = 0; p < kPositions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = double(p) / (1 + double(i));
      table[size_t(p * rotary_dim + i)] = float(std::cos(angle));
      table[size_t(p * rotary_dim + half + i)] = float(std::sin(angle));
    }
  }
  return table;
}

struct Case {
  int64_t num_tokens, num_heads, num_kv_heads, head_dim, rotary_dim;
};
constexpr Case kCases[] = {{1, 1, 1, 2, 2},   {7, 4, 2, 128, 128}, {3, 3, 1, 80, 80},   {40, 6, 2, 64, 64},
                           {5, 2, 2, 96, 32}, {2, 2, 1, 18, 6},    {300, 2, 1, 32, 32}, {4, 1, 1, 256, 256}};

// q, k and v packed in rows as the merged projection leaves them.
struct Packed {
  explicit Packed(const Case& c)
      : qkv(random_floats({c.num_tokens, (c.num_heads + 2 * c.num_kv_heads) * c.head_dim}, 1)),
        positions({c.num_tokens}) {
    for (int64_t t = 0; t < c.num_tokens; ++t) positions[size_t(t)] = int32_t(t * 13 % kPositions);
  }
  void turn(Context& ctx, const Case& c, const Floats& table) const {
    rope(ctx, {.q = heads(qkv, 0, c.num_heads, c.head_dim),
               .k = heads(qkv, c.num_heads, c.num_kv_heads, c.head_dim),
               .positions = positions,
               .cos_sin = table});
  }
  Floats qkv;
  Ints positions;
};

// Each output is a difference of two rounded products, rounded: at most u |x1 cos| + u |x2 sin| + u |out|,
// and |out| is at most the sum of the two.
TEST_P(RopeTest, TurnsQAndKOnlyByItsDefinition) {
  WorstError worst("error_of_bound");
  for (const Case& c : kCases) {
    const Floats table = cos_sin_table(c.rotary_dim);
    const Packed packed(c), before = packed;
    packed.turn(ctx, c, table);
    const size_t half = size_t(c.rotary_dim / 2), head_dim = size_t(c.head_dim);
    for (int64_t t = 0; t < c.num_tokens; ++t) {
      const std::vector<double> row = doubles(table.row(packed.positions[size_t(t)]));
      const std::vector<double> cos(row.begin(), row.begin() + int64_t(half)),
          sin(row.begin() + int64_t(half), row.end());
      for (int64_t h = 0; h < c.num_heads + 2 * c.num_kv_heads; ++h) {
        const auto got = packed.qkv.row(t).subspan(size_t(h) * head_dim, head_dim);
        const auto x = before.qkv.row(t).subspan(size_t(h) * head_dim, head_dim);
        if (h >= c.num_heads + c.num_kv_heads) {
          ASSERT_TRUE(same_bits(got, x)) << "v was touched";
          continue;
        }
        const std::vector<double> want = rope_reference(doubles(x), cos, sin);
        for (size_t i = 0; i < half; ++i) {
          const double x1 = std::fabs(double(x[i])), x2 = std::fabs(double(x[half + i]));
          const double c1 = std::fabs(cos[i]), s1 = std::fabs(sin[i]);
          worst.add(got[i], want[i], 2.001 * kU * (x1 * c1 + x2 * s1), "head", int64_t(i));
          worst.add(got[half + i], want[half + i], 2.001 * kU * (x2 * c1 + x1 * s1), "head",
                    int64_t(half + i));
        }
        ASSERT_TRUE(same_bits(got.subspan(2 * half), x.subspan(2 * half))) << "past rotary_dim";
      }
    }
  }
}

TEST_P(RopeTest, PositionZeroTurnsNothing) {
  const Case c{1, 2, 1, 64, 64};
  Packed packed(c), before = packed;
  packed.turn(ctx, c, cos_sin_table(c.rotary_dim));
  EXPECT_TRUE(same_bits(packed.qkv.span(), before.qkv.span()));
}

// A quarter turn takes (x1, x2) to (−x2, x1): the direction, without a reference that could share its
// mistake.
TEST_P(RopeTest, AQuarterTurn) {
  const Floats q({1, 1, 4}), table = floats({0, 0, 1, 1}), k = q;
  for (size_t i = 0; i < 4; ++i) q.tensor().ptr<float>()[i] = k.tensor().ptr<float>()[i] = float(i + 1);
  rope(ctx, {.q = q,
             .k = k,
             .positions = ints({0}),
             .cos_sin = Tensor::view(table.tensor().data, DType::kF32, {1, 4})});
  EXPECT_TRUE(same_bits(q.span(), floats({-3, -4, 1, 2}).span()));
  EXPECT_TRUE(same_bits(k.span(), floats({-3, -4, 1, 2}).span()));
}

TEST(RopeBits, AllSetsAgreeAndATokenIsTheSameInAnyCompany) {
  EverySet sets(3);
  for (const Case& c : kCases) {
    const Floats table = cos_sin_table(c.rotary_dim);
    const Packed packed(c);
    const Floats whole = sets.same_bits_from_all("rope", [&](Context& ctx) {
      const Packed p = packed;
      p.turn(ctx, c, table);
      return p.qkv;
    });
    const int64_t last = c.num_tokens - 1;
    const Floats alone = sets.same_bits_from_all("one token", [&](Context& ctx) {
      const Packed p = packed;
      const Tensor row = p.qkv.tensor().slice(last, 1);
      rope(ctx, {.q = heads(row, 0, c.num_heads, c.head_dim),
                 .k = heads(row, c.num_heads, c.num_kv_heads, c.head_dim),
                 .positions = p.positions.tensor().slice(last, 1),
                 .cos_sin = table});
      return p.qkv;
    });
    EXPECT_TRUE(same_bits(alone.row(last), whole.row(last)));
  }
}

}  // namespace
}  // namespace nanovllm
