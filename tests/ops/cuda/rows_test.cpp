// The ops over rows with T = bf16 and f16: float32 inside, one rounding where the header says one.
#include "ops/cuda/device_values.h"

namespace nanovllm {
namespace {

using namespace test;

class RowsMmaTest : public MmaTest {
 protected:
  void expect_near(const std::vector<float>& got, const std::vector<double>& want, double roundings,
                   const char* what) {
    ASSERT_EQ(got.size(), want.size());
    WorstError worst(what);
    for (size_t i = 0; i < want.size(); ++i)
      worst.add(got[i], want[i], roundings * half_ulp(want[i]) * 1.01 + 1e-30, what, int64_t(i));
  }
  static std::vector<double> row(const std::vector<float>& values, size_t index, size_t width) {
    return {values.begin() + std::ptrdiff_t(index * width),
            values.begin() + std::ptrdiff_t((index + 1) * width)};
  }
};
INSTANTIATE_MMA_TEST(RowsMmaTest);

TEST_P(RowsMmaTest, RmsNorm) {
  for (const int64_t width : {16, 100, 128, 1024, 5000, 12288, 16384}) {
    const auto x = random_values(size_t(3 * width), 1, dtype()),
               w = random_values(size_t(width), 2, DType::kF32, 2);
    const DeviceValues dx(dtype(), {3, width}, x), dw(DType::kF32, {width}, w), out(dtype(), {3, width});
    rms_norm(ctx(), {.out = out, .x = dx, .weight = dw, .eps = 1e-6f});
    std::vector<double> want;
    for (size_t t = 0; t < 3; ++t) {
      const auto r = rms_norm_reference(row(x, t, size_t(width)), {w.begin(), w.end()}, 1e-6);
      want.insert(want.end(), r.begin(), r.end());
    }
    expect_near(out.floats(), want, 2, "rms_norm");  // the normalised value is rounded, then the product
  }
}

TEST_P(RowsMmaTest, AddRmsNormRoundsTheResidualFirst) {
  constexpr int64_t kWidth = 1024;
  for (const int64_t segments : {1, 2, 4}) {
    const auto s = random_values(size_t(segments * 5 * kWidth), 3, DType::kF32),
               r = random_values(5 * kWidth, 4, dtype()), w = random_values(kWidth, 5, DType::kF32, 2);
    const DeviceValues ds(DType::kF32, {segments, 5, kWidth}, s), dr(dtype(), {5, kWidth}, r),
        dw(DType::kF32, {kWidth}, w), out(dtype(), {5, kWidth});
    add_rms_norm(ctx(), {.out = out, .partial_sums = ds, .residual = dr, .weight = dw, .eps = 1e-6f});
    std::vector<float> residual;
    std::vector<double> want;
    for (size_t i = 0; i < 5 * kWidth; ++i) {
      const auto at = [&](int64_t segment) { return s[size_t(segment * 5 * kWidth) + i]; };
      float sum = at(0);
      if (segments >= 2) sum += at(1);
      if (segments == 4) sum += at(2) + at(3);
      residual.push_back(rounded(sum + r[i], dtype()));
    }
    EXPECT_TRUE(same_bits(dr.floats(), residual)) << segments;
    for (size_t t = 0; t < 5; ++t) {
      const auto each = rms_norm_reference(row(residual, t, kWidth), {w.begin(), w.end()}, 1e-6);
      want.insert(want.end(), each.begin(), each.end());
    }
    expect_near(out.floats(), want, 2, "add_rms_norm");
  }
}

TEST_P(RowsMmaTest, NormRopeStoreIsTheSingleOps) {
  for (const int64_t dim : {16, 32, 64, 128}) {
    constexpr int64_t kTokens = 5, kHeads = 4, kKvHeads = 2, kRow = kHeads + 2 * kKvHeads;
    const auto values = random_values(size_t(kTokens * kRow * dim), 10, dtype()),
               table = random_values(size_t(20 * dim), 11, DType::kF32),
               w = random_values(size_t(dim), 12, DType::kF32, 2);
    const std::vector<int32_t> positions{0, 19, 4, 4, 7}, slots{3, -1, 0, 21, 9};
    const DeviceValues dp({kTokens}, positions), ds({kTokens}, slots), dt(DType::kF32, {20, dim}, table),
        dw(DType::kF32, {dim}, w);
    std::vector<std::vector<std::byte>> results;
    for (const bool fused : {true, false}) {
      const DeviceValues qkv(dtype(), {kTokens, kRow * dim}, values),
          k_cache(dtype(), {2, kKvHeads, 16, dim}), v_cache(dtype(), {2, kKvHeads, 16, dim});
      const KvLayer cache{
          k_cache.tensor().data, v_cache.tensor().data, dtype(), 2, 16, int(kKvHeads), int(dim)};
      const Tensor q = heads(qkv, 0, kHeads, dim), k = heads(qkv, kHeads, kKvHeads, dim),
                   v = heads(qkv, kHeads + kKvHeads, kKvHeads, dim);
      const NormRopeStoreArgs args{.q = q,
                                   .k = k,
                                   .v = v,
                                   .q_weight = dw,
                                   .k_weight = dw,
                                   .eps = 1e-6f,
                                   .positions = dp,
                                   .cos_sin = dt,
                                   .cache = cache,
                                   .slot_mapping = ds};
      fused ? norm_rope_store(ctx(), args) : norm_rope_store_by_single_ops(ctx(), args);
      std::vector<std::byte> q_bytes;
      const std::vector<std::byte> rows = qkv.bytes();
      const size_t row = size_t(kRow * dim) * 2, used = size_t(kHeads * dim) * 2;
      for (size_t t = 0; t < kTokens; ++t)
        q_bytes.insert(q_bytes.end(), rows.begin() + std::ptrdiff_t(t * row),
                       rows.begin() + std::ptrdiff_t(t * row + used));
      results.push_back(q_bytes);
      results.push_back(k_cache.bytes());
      results.push_back(v_cache.bytes());
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(results[i] == results[i + 3]) << dim << ", " << i;
  }
}

TEST_P(RowsMmaTest, RopeSiluEmbeddingGather) {
  constexpr int64_t kTokens = 9, kHeads = 3, kDim = 64;
  const auto q = random_values(kTokens * kHeads * kDim, 6, dtype()),
             table = random_values(20 * kDim, 7, DType::kF32);
  const std::vector<int32_t> positions{0, 19, 3, 7, 7, 1, 2, 18, 5};
  const DeviceValues dq(dtype(), {kTokens, kHeads, kDim}, q), dk(dtype(), {kTokens, kHeads, kDim}, q),
      dp({kTokens}, positions), dt(DType::kF32, {20, kDim}, table);
  rope(ctx(), {.q = dq, .k = dk, .positions = dp, .cos_sin = dt});
  std::vector<float> want;  // each product rounded to float32, then the sum, then T: to the bit
  for (size_t t = 0; t < kTokens; ++t)
    for (size_t h = 0; h < kHeads; ++h)
      for (size_t d = 0; d < kDim; ++d) {
        const float* head = &q[(t * kHeads + h) * kDim];
        const float *c = &table[size_t(positions[t]) * kDim], *s = c + kDim / 2;
        const size_t i = d % (kDim / 2);
        const volatile float a = d < kDim / 2 ? head[i] * c[i] : head[i + kDim / 2] * c[i],
                             b = d < kDim / 2 ? head[i + kDim / 2] * s[i] : head[i] * s[i];
        want.push_back(rounded(d < kDim / 2 ? a - b : a + b, dtype()));
      }
  EXPECT_TRUE(same_bits(dq.floats(), want));
  EXPECT_TRUE(same_bits(dk.floats(), want));

  const auto gate_up = random_values(5 * 2 * 700, 8, dtype(), 8);
  const DeviceValues dg(dtype(), {5, 2 * 700}, gate_up), out(dtype(), {5, 700});
  silu_and_mul(ctx(), {.out = out, .gate_up = dg});
  std::vector<double> silu;
  for (size_t t = 0; t < 5; ++t)
    for (size_t i = 0; i < 700; ++i)
      silu.push_back(silu_and_mul_reference(gate_up[t * 1400 + i], gate_up[t * 1400 + 700 + i]));
  expect_near(out.floats(), silu, 1, "silu_and_mul");

  const auto rows = random_values(30 * 96, 9, dtype());
  const std::vector<int32_t> ids{10, 39, 40, 9, 25};
  const DeviceValues dw(dtype(), {30, 96}, rows), d_ids({5}, ids), looked_up(dtype(), {5, 96});
  embedding(ctx(), {.out = looked_up, .token_ids = d_ids, .table = dw.weight(), .first_id = 10});
  const std::vector<float> found = looked_up.floats();
  for (size_t t = 0; t < 5; ++t)
    for (size_t i = 0; i < 96; ++i) {
      const bool here = ids[t] >= 10 && ids[t] < 40;
      EXPECT_EQ(found[t * 96 + i], here ? rows[size_t(ids[t] - 10) * 96 + i] : 0.0f);
      EXPECT_TRUE(here || std::signbit(found[t * 96 + i]));
    }

  const std::vector<int32_t> picks{4, 0, 4};
  const DeviceValues d_picks({3}, picks), gathered(dtype(), {3, 96});
  gather_rows(ctx(), {.out = gathered, .x = looked_up, .indices = d_picks});
  const std::vector<float> picked = gathered.floats();
  for (size_t r = 0; r < 3; ++r)
    EXPECT_TRUE(same_bits(std::span(picked).subspan(r * 96, 96),
                          std::span(found).subspan(size_t(picks[r]) * 96, 96)));
}

}  // namespace
}  // namespace nanovllm
