// Products of the tensor cores: whatever cuBLASLt chooses, the bits are those of one plain chain.
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/device_values.h"

namespace nanovllm {
namespace {

using namespace test;

class LinearMmaTest : public MmaTest {
 protected:
  // The results of the table's linear and of the plain chain, as bytes.
  std::pair<std::vector<std::byte>, std::vector<std::byte>> both(const Tensor& x, const DeviceValues& weight,
                                                                 int64_t num_segments, DType out_dtype,
                                                                 const Tensor& bias = {}) {
    const int64_t tokens = x.shape[0], outputs = weight.tensor().shape[0];
    const auto make = [&] {
      return num_segments > 1 ? DeviceValues(out_dtype, {num_segments, tokens, outputs})
                              : DeviceValues(out_dtype, {tokens, outputs});
    };
    const DeviceValues fast = make(), plain = make();
    linear(ctx(), {.out = fast, .x = x, .weight = weight.weight(), .bias = bias});
    cuda::linear_chain(ctx(), {.out = plain, .x = x, .weight = weight.weight(), .bias = bias});
    return {fast.bytes(), plain.bytes()};
  }
};
INSTANTIATE_MMA_TEST(LinearMmaTest);

struct Shape {
  const char* name;
  int64_t outputs, inputs, num_segments;
};
// Qwen3-0.6B, 1.7B, 4B, 8B: qkv, o, gate and up, down.
constexpr Shape kShapes[] = {
    {"0.6B qkv", 4096, 1024, 1},      {"0.6B o", 1024, 2048, 4},      {"0.6B gate_up", 6144, 1024, 1},
    {"0.6B down", 1024, 3072, 4},     {"1.7B qkv", 4096, 2048, 1},    {"1.7B o", 2048, 2048, 4},
    {"1.7B gate_up", 12288, 2048, 1}, {"1.7B down", 2048, 6144, 4},   {"4B qkv", 6144, 2560, 1},
    {"4B o", 2560, 4096, 4},          {"4B gate_up", 19456, 2560, 1}, {"4B down", 2560, 9728, 4},
    {"8B qkv", 6144, 4096, 1},        {"8B o", 4096, 4096, 4},        {"8B gate_up", 24576, 4096, 1},
    {"8B down", 4096, 12288, 4}};

TEST_P(LinearMmaTest, HasTheBitsOfThePlainChain) {
  const std::vector<float> x_values = random_values(size_t{2048} * 12288, 1, dtype());
  for (const Shape& shape : kShapes) {
    const DeviceValues weight(dtype(), {shape.outputs, shape.inputs},
                              random_values(size_t(shape.outputs * shape.inputs), 2, dtype(), 0.05f));
    for (const int64_t tokens :
         {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 129, 200, 256, 257, 512, 1024, 2048}) {
      const DeviceValues x(dtype(), {tokens, shape.inputs},
                           std::span(x_values).first(size_t(tokens * shape.inputs)));
      const auto [fast, plain] =
          both(x, weight, shape.num_segments, shape.num_segments > 1 ? DType::kF32 : dtype());
      EXPECT_TRUE(fast == plain) << shape.name << ", " << tokens << " tokens";
    }
  }
}

TEST_P(LinearMmaTest, HasThemForAsManyTokensAsAStepMayHave) {
  constexpr int64_t kMaxTokens = 16384, kMaxInputs = 12288;
  const DeviceValues values(dtype(), {kMaxTokens, kMaxInputs},
                            random_values(size_t(kMaxTokens * kMaxInputs), 3, dtype()));
  for (const Shape& shape : kShapes) {
    const DeviceValues weight(dtype(), {shape.outputs, shape.inputs},
                              random_values(size_t(shape.outputs * shape.inputs), 4, dtype(), 0.05f));
    for (const int64_t tokens : {8192, 16384}) {
      const Tensor x = Tensor::view(values.tensor().data, dtype(), {tokens, shape.inputs});
      const auto [fast, plain] =
          both(x, weight, shape.num_segments, shape.num_segments > 1 ? DType::kF32 : dtype());
      EXPECT_TRUE(fast == plain) << shape.name << ", " << tokens << " tokens";
    }
  }
}

// What is judged wrong is passed over and never used again; of what is right the first stays.
TEST_P(LinearMmaTest, AlgorithmsAreJudgedOnceAndPassedOver) {
  constexpr int64_t kTokens = 2048, kOutputs = 4096, kInputs = 1024;  // long enough for several
  const DeviceValues x(dtype(), {kTokens, kInputs}, random_values(kTokens * kInputs, 8, dtype())),
      weight(dtype(), {kOutputs, kInputs}, random_values(kOutputs * kInputs, 9, dtype(), 0.05f));
  const DeviceValues out(dtype(), {kTokens, kOutputs}), plain(dtype(), {kTokens, kOutputs});
  cuda::linear_chain(ctx(), {.out = plain, .x = x, .weight = weight.weight()});
  const cuda::Product product{.x = x.tensor().data,
                              .weight = weight.tensor().data,
                              .out = out.tensor().data,
                              .dtype = dtype(),
                              .out_dtype = dtype(),
                              .num_tokens = kTokens,
                              .out_features = kOutputs,
                              .k = kInputs,
                              .x_stride = kInputs,
                              .out_stride = kOutputs,
                              .out_batch_stride = 0,
                              .num_batches = 1};
  for (const int num_wrong : {0, 1, 3, 1000}) {
    cuda::CublasLt lt;
    if (!lt.problem().empty()) GTEST_SKIP() << lt.problem();
    int num_judged = 0;
    const auto judge = [&] { return ++num_judged > num_wrong; };
    const bool done = lt.multiply(product, nullptr, judge);
    EXPECT_EQ(done, num_wrong < 1000);
    EXPECT_EQ(lt.num_shapes(), 1);
    if (done) {
      EXPECT_EQ(num_judged, num_wrong + 1);
      EXPECT_TRUE(out.bytes() == plain.bytes());
    }
    const int before = num_judged;
    EXPECT_EQ(lt.multiply(product, nullptr, judge), done);
    EXPECT_EQ(num_judged, before) << "nothing is left to judge";
  }
}

TEST_P(LinearMmaTest, LogitsAreFloat32) {
  for (const int64_t inputs : {1024, 2560}) {
    const DeviceValues weight(dtype(), {151936, inputs},
                              random_values(size_t(151936 * inputs), 5, dtype(), 0.05f));
    for (const int64_t tokens : {1, 3, 64, 256}) {
      const DeviceValues x(dtype(), {tokens, inputs}, random_values(size_t(tokens * inputs), 6, dtype()));
      const auto [fast, plain] = both(x, weight, 1, DType::kF32);
      EXPECT_TRUE(fast == plain) << tokens;
    }
  }
}

// A view of wider rows, and one at an address that 16 bytes do not divide.
TEST_P(LinearMmaTest, RowsMayBeApart) {
  constexpr int64_t kInputs = 512, kOutputs = 96, kPitch = 600;
  const DeviceValues weight(dtype(), {kOutputs, kInputs},
                            random_values(kOutputs * kInputs, 18, dtype(), 0.05f));
  for (const int64_t tokens : {1, 9, 64, 130})
    for (const int64_t offset : {8, 4}) {
      const DeviceValues wide(dtype(), {tokens, kPitch}, random_values(size_t(tokens * kPitch), 19, dtype()));
      Tensor x = Tensor::view(wide.tensor().ptr<uint16_t>() + offset, dtype(), {tokens, kInputs});
      x.stride[0] = kPitch;
      const auto [fast, plain] = both(x, weight, 1, dtype());
      EXPECT_TRUE(fast == plain) << tokens << " tokens from " << offset;
    }
}

// Qwen2's qkv: added in float32, before the sum is rounded.
TEST_P(LinearMmaTest, ABiasIsAddedToTheChain) {
  const DeviceValues weight(dtype(), {1152, 896}, random_values(1152 * 896, 12, dtype(), 0.05f)),
      bias(DType::kF32, {1152}, random_values(1152, 13, dtype()));
  for (const int64_t tokens : {1, 8, 65, 200}) {
    const DeviceValues x(dtype(), {tokens, 896}, random_values(size_t(tokens * 896), 14, dtype()));
    for (const DType out : {dtype(), DType::kF32}) {
      const auto [fast, plain] = both(x, weight, 1, out, bias);
      EXPECT_TRUE(fast == plain) << tokens;
    }
  }
}

// Of 0.6B and 8B, of a rank of four, and sizes that fill no tile: in one pass or not.
TEST_P(LinearMmaTest, AGatedProductIsTheSingleOps) {
  struct Case {
    int64_t outputs, inputs;
    bool bias;
  };
  for (const Case& c : {Case{3072, 1024, false}, Case{768, 1024, true}, Case{12288, 4096, false},
                        Case{200, 264, true}, Case{13, 72, true}, Case{40, 20, false}}) {
    const DeviceValues weight(dtype(), {2 * c.outputs, c.inputs},
                              random_values(size_t(2 * c.outputs * c.inputs), 15, dtype(), 0.05f)),
        bias(DType::kF32, {2 * c.outputs}, random_values(size_t(2 * c.outputs), 16, dtype()));
    for (const int64_t tokens : {1, 2, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 200, 256, 257}) {
      const DeviceValues x(dtype(), {tokens, c.inputs},
                           random_values(size_t(tokens * c.inputs), 17, dtype())),
          one_pass(dtype(), {tokens, c.outputs}), single(dtype(), {tokens, c.outputs});
      const auto args = [&](const Tensor& out) {
        return GatedLinearArgs{
            .out = out, .x = x, .weight = weight.weight(), .bias = c.bias ? bias.tensor() : Tensor{}};
      };
      gated_linear(ctx(), args(one_pass));
      gated_linear_by_single_ops(ctx(), args(single));
      EXPECT_TRUE(one_pass.bytes() == single.bytes()) << c.outputs << " x " << c.inputs << ", " << tokens;
    }
  }
}

TEST_P(LinearMmaTest, TwoChainsWouldDiffer) {  // so the tests above can fail
  constexpr int64_t kTokens = 16, kOutputs = 256, kInputs = 1024;
  const DeviceValues x(dtype(), {kTokens, kInputs}, random_values(kTokens * kInputs, 7, dtype()));
  const DeviceValues weight(dtype(), {kOutputs, kInputs},
                            random_values(kOutputs * kInputs, 8, dtype(), 0.05f));
  const DeviceValues one(DType::kF32, {kTokens, kOutputs}), two(DType::kF32, {2, kTokens, kOutputs});
  linear(ctx(), {.out = one, .x = x, .weight = weight.weight(), .bias = {}});
  linear(ctx(), {.out = two, .x = x, .weight = weight.weight(), .bias = {}});
  const std::vector<float> whole = one.floats(), halves = two.floats();
  size_t num_different = 0;
  for (size_t i = 0; i < whole.size(); ++i) num_different += whole[i] != halves[i] + halves[whole.size() + i];
  EXPECT_GT(num_different, whole.size() / 10);
}

// Sizes that no library kernel takes, a segment that is no multiple of 16, and a bias in float32.
TEST_P(LinearMmaTest, IsItsDefinition) {
  struct Case {
    int64_t tokens, outputs, inputs, segments;
    bool bias;
  };
  for (const Case& c : {Case{3, 5, 7, 1, false}, Case{17, 40, 96, 4, false}, Case{1, 8, 64, 4, true},
                        Case{5, 33, 72, 1, true}, Case{40, 1024, 512, 1, true}, Case{40, 256, 1024, 4, true},
                        Case{64, 512, 2048, 1, false}, Case{9, 70, 4 * 296, 4, true},
                        Case{33, 2300, 4 * 1288, 4, false}, Case{2, 140, 1416, 1, true}}) {
    const std::vector<float> x_values = random_values(size_t(c.tokens * c.inputs), 9, dtype()),
                             w_values = random_values(size_t(c.outputs * c.inputs), 10, dtype(), 0.1f),
                             bias_values = random_values(size_t(c.outputs), 11, DType::kF32);
    const DeviceValues x(dtype(), {c.tokens, c.inputs}, x_values),
        weight(dtype(), {c.outputs, c.inputs}, w_values), bias(DType::kF32, {c.outputs}, bias_values);
    const Tensor b = c.bias ? bias.tensor() : Tensor{};
    const auto [fast, plain] = both(x, weight, c.segments, c.segments > 1 ? DType::kF32 : dtype(), b);
    EXPECT_TRUE(fast == plain) << c.outputs << " x " << c.inputs;
    const DeviceValues out = c.segments > 1 ? DeviceValues(DType::kF32, {c.segments, c.tokens, c.outputs})
                                            : DeviceValues(dtype(), {c.tokens, c.outputs});
    linear(ctx(), {.out = out, .x = x, .weight = weight.weight(), .bias = b});
    const std::vector<float> got = out.floats();
    // Products of T are exact in float32. The tensor cores add 16 of them at a time to the sum and cut, not round, what is
    // below its last bits: at most 2^-22 of the largest magnitude on the way a step, and that is below Σ |x w|.
    WorstError worst("shares_of_the_bound");
    for (int64_t t = 0; t < c.tokens; ++t)
      for (int64_t n = 0; n < c.outputs; ++n) {
        double want = c.bias ? double(bias_values[size_t(n)]) : 0, magnitude = std::fabs(want), sum = 0;
        for (int64_t k = 0; k < c.inputs; ++k) {
          const double product =
              double(x_values[size_t(t * c.inputs + k)]) * double(w_values[size_t(n * c.inputs + k)]);
          want += product;
          magnitude += std::fabs(product);
        }
        for (int64_t s = 0; s < c.segments; ++s)
          sum += double(got[size_t((s * c.tokens + t) * c.outputs + n)]);
        const double steps = double(c.inputs / c.segments + 15) / 16 + 1;
        worst.add(sum, want, steps * 0x1p-22 * magnitude + (c.segments > 1 ? 0 : half_ulp(want)) + 1e-30,
                  "out", t * c.outputs + n);
      }
  }
}

TEST_P(LinearMmaTest, AWeightOfAnotherTypeIsRefused) {
  const DeviceValues x(dtype(), {1, 16}), out(dtype(), {1, 8}), weight(DType::kF32, {8, 16});
  expect_error(ErrorKind::kUnsupported, "linear: weight is f32 and x ",
               [&] { linear(ctx(), {.out = out, .x = x, .weight = weight.weight(), .bias = {}}); });
}

}  // namespace
}  // namespace nanovllm
