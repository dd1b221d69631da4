#include "ops/silu_and_mul.h"

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class SiluAndMulTest : public OpTest {};
INSTANTIATE_OP_TEST(SiluAndMulTest);

// In units of u: exp 4 (2 ULP, each at most 2 u), the sum 1 + exp keeps at most that and rounds once, the
// quotient and the product round once each. An error of e u is at most e ULP.
constexpr double kUlps = 1.001 * (4 + 1 + 1 + 1);

TEST_P(SiluAndMulTest, IsItsDefinition) {
  WorstError worst("ulps", kUlps);
  for (int64_t n : {1, 15, 16, 17, 31, 33, 769, 3072}) {
    for (float scale : {1e-6f, 1.0f, 20.0f, 80.0f}) {
      const Floats gate_up = random_floats({3, 2 * n}, uint32_t(n), scale), out = unwritten({3, n});
      silu_and_mul(ctx, {.out = out, .gate_up = gate_up});
      for (int64_t t = 0; t < 3; ++t) {
        std::vector<double> want;
        for (size_t i = 0; i < size_t(n); ++i)
          want.push_back(silu_and_mul_reference(gate_up.row(t)[i], gate_up.row(t)[i + size_t(n)]));
        expect_ulps(worst, out.row(t), want);
      }
    }
  }
}

// exp stops at e^88 = 1.65e38 (ops/scalar_math.h): below −88 silu is gate / 1.65e38 instead of still less,
// which is an absolute error below |gate| 1e-38; results that are denormal are flushed to zero, below 2e-38
// too.
TEST_P(SiluAndMulTest, LargeGates) {
  WorstError worst("ulps", kUlps);
  for (float gate :
       {-1e30f, -1000.0f, -100.0f, -90.0f, -88.0f, -87.4f, -87.2f, 0.0f, 87.0f, 88.5f, 1000.0f, 1e30f}) {
    const Floats gate_up = floats({gate, 3}), out = unwritten({1, 1});
    silu_and_mul(ctx, {.out = out, .gate_up = Tensor::view(gate_up.tensor().data, DType::kF32, {1, 2})});
    const double want = silu_and_mul_reference(gate, 3);
    const double absolute = gate < -80 ? 3 * (std::fabs(double(gate)) * 1e-38 + 2e-38) : 0;
    worst.add(out[0], want, ulp(want) + absolute / kUlps, "gate", int64_t(gate));
  }
}

TEST_P(SiluAndMulTest, ANanTouchesOneValue) {
  Floats gate_up = random_floats({2, 40}, 1);
  const Floats want = unwritten({2, 20}), out = unwritten({2, 20});
  silu_and_mul(ctx, {.out = want, .gate_up = gate_up});
  gate_up[3] = kNan;            // a gate of row 0
  gate_up[40 + 20 + 5] = kNan;  // an up of row 1
  silu_and_mul(ctx, {.out = out, .gate_up = gate_up});
  for (size_t i = 0; i < 40; ++i) {
    if (i == 3 || i == 25)
      EXPECT_TRUE(std::isnan(out[i]));
    else
      EXPECT_EQ(out[i], want[i]) << i;
  }
}

TEST_P(SiluAndMulTest, RowsOfAWiderMatrix) {
  const Floats wide = random_floats({4, 100}, 1), packed({4, 60});
  for (int64_t t = 0; t < 4; ++t) std::copy_n(wide.row(t).data(), 60, packed.tensor().ptr<float>() + t * 60);
  Tensor strided = wide;
  strided.shape[1] = 60;
  const Floats want = unwritten({4, 30}), out = unwritten({4, 30});
  silu_and_mul(ctx, {.out = want, .gate_up = packed});
  silu_and_mul(ctx, {.out = out, .gate_up = strided});
  EXPECT_TRUE(same_bits(out.span(), want.span()));
}

TEST(SiluAndMulBits, AllSetsAgree) {
  EverySet sets(3);
  for (int64_t n : {1, 15, 16, 17, 31, 33, 100, 769})
    for (float scale : {1.0f, 30.0f, 200.0f})
      sets.same_bits_from_all("silu_and_mul " + std::to_string(n), [&](Context& ctx) {
        const Floats gate_up = random_floats({20, 2 * n}, uint32_t(n), scale), out = unwritten({20, n});
        silu_and_mul(ctx, {.out = out, .gate_up = gate_up});
        return out;
      });
}

}  // namespace
}  // namespace nanovllm
