#include "tensor/copy_to_host.h"

#include <gtest/gtest.h>

namespace nanovllm {
namespace {

TEST(CopyToHost, WidensEveryFloat) {
  const float f32[] = {1, -2.5f};
  const uint16_t f16[] = {float_to_f16(0.5f), float_to_f16(-3)},
                 bf16[] = {float_to_bf16(0.25f), float_to_bf16(7)};
  const auto values = [](const void* data, DType dtype) {
    return copy_to_host(host_device(), Tensor::view(const_cast<void*>(data), dtype, {2}));
  };
  EXPECT_EQ(values(f32, DType::kF32), (std::vector<float>{1, -2.5f}));
  EXPECT_EQ(values(f16, DType::kF16), (std::vector<float>{0.5f, -3}));
  EXPECT_EQ(values(bf16, DType::kBF16), (std::vector<float>{0.25f, 7}));
}

TEST(CopyToHost, FollowsStrides) {
  float data[24];
  for (int i = 0; i < 24; ++i) data[i] = float(i);
  const Tensor packed = Tensor::view(data, DType::kF32, {2, 12});  // 6 heads of 2
  EXPECT_EQ(copy_to_host(host_device(), heads(packed, 4, 2, 2)),
            (std::vector<float>{8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(copy_to_host(host_device(), packed).size(), 24u);
  EXPECT_TRUE(copy_to_host(host_device(), packed.slice(1, 0)).empty());
}

}  // namespace
}  // namespace nanovllm
