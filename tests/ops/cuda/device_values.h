// Tensors on the GPU with values that T can hold, and what comes back.
#pragma once

#include "ops/cuda/cuda_ops.h"
#include "ops/ops_fixture.h"
#include "tensor/copy_to_host.h"

namespace nanovllm::test {

inline float rounded(float value, DType dtype) {
  if (dtype == DType::kBF16) return bf16_to_float(float_to_bf16(value));
  return dtype == DType::kF16 ? f16_to_float(float_to_f16(value)) : value;
}

// Owns the memory of one tensor.
class DeviceValues {
 public:
  DeviceValues(DType dtype, std::initializer_list<int64_t> shape)
      : tensor_(Tensor::view(nullptr, dtype, shape)),
        buffer_(cuda_device(), size_t(std::max<int64_t>(1, tensor_.num_elements())) * dtype_bytes(dtype),
                "test") {
    tensor_.data = buffer_.data();
  }
  // values: rounded to dtype
  DeviceValues(DType dtype, std::initializer_list<int64_t> shape, std::span<const float> values)
      : DeviceValues(dtype, shape) {
    std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t half = dtype == DType::kF16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
      if (dtype == DType::kF32)
        std::memcpy(&bytes[4 * i], &values[i], 4);
      else
        std::memcpy(&bytes[2 * i], &half, 2);
    }
    cuda_device().upload(buffer_.data(), bytes.data(), bytes.size());
  }
  DeviceValues(std::initializer_list<int64_t> shape, std::span<const int32_t> values)
      : DeviceValues(DType::kI32, shape) {
    cuda_device().upload(buffer_.data(), values.data(), values.size_bytes());
  }

  const Tensor& tensor() const { return tensor_; }
  operator Tensor() const { return tensor_; }
  std::vector<float> floats() const { return copy_to_host(cuda_device(), tensor_); }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> result(size_t(tensor_.num_elements()) * dtype_bytes(tensor_.dtype));
    cuda_device().download(result.data(), tensor_.data, result.size());
    return result;
  }
  Weight weight() const { return {tensor_.data, tensor_.dtype, tensor_.shape[0], tensor_.shape[1]}; }

 private:
  Tensor tensor_;
  DeviceBuffer buffer_;
};

// Random values that dtype can hold, in (-scale, scale).
inline std::vector<float> random_values(size_t count, uint32_t seed, DType dtype, float scale = 1) {
  std::vector<float> values(count);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = rounded(float(int32_t(state >> 32)) * 0x1p-31f * scale, dtype);
  }
  return values;
}

// A test for T = bf16 and f16, with a context on the GPU; skipped where there is none.
class MmaTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!cuda_unavailable().empty()) GTEST_SKIP() << cuda_unavailable();
    op_ = std::make_unique<OpContext>(cuda_ops(GetParam()), 1, size_t{128} << 20);
  }

  DType dtype() const { return GetParam(); }
  Context& ctx() { return op_->ctx; }
  // The most that rounding x to T changes.
  double half_ulp(double x) const {
    return std::ldexp(std::fabs(x), dtype() == DType::kBF16 ? -8 : -11) +
           (dtype() == DType::kF16 ? 0x1p-25 : 0);
  }

 private:
  std::unique_ptr<OpContext> op_;
};
#define INSTANTIATE_MMA_TEST(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(T, suite, testing::Values(DType::kBF16, DType::kF16), \
                           [](const auto& info) { return std::string(nanovllm::dtype_name(info.param)); })

}  // namespace nanovllm::test
