#include "parallel/communicator.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/cpu/cpu_ops.h"

namespace nanovllm {
namespace {

class SingleRankTest : public testing::Test {
 protected:
  std::vector<float> values_{1, -2, 3, 4, 5, 6};
  Tensor tensor_ = Tensor::view(values_.data(), DType::kF32, {2, 3});
  Arena arena_{host_device(), 0};
  SingleRank comm_;
  Context ctx_{.ops = cpu_ops(), .arena = arena_, .comm = comm_};
};

TEST_F(SingleRankTest, IsRank0Of1) {
  EXPECT_EQ(comm_.rank(), 0);
  EXPECT_EQ(comm_.size(), 1);
  EXPECT_EQ(TensorParallel{}.rank, 0);
  EXPECT_EQ(TensorParallel{}.size, 1);
}

TEST_F(SingleRankTest, TheSumOverOneRankIsItself) {
  comm_.all_reduce_sum(ctx_, tensor_);
  EXPECT_EQ(values_, (std::vector<float>{1, -2, 3, 4, 5, 6}));
}

TEST_F(SingleRankTest, GathersInPlace) {
  comm_.gather(ctx_, tensor_, tensor_);
  EXPECT_EQ(values_, (std::vector<float>{1, -2, 3, 4, 5, 6}));
}

using SingleRankDeathTest = SingleRankTest;

TEST_F(SingleRankDeathTest, ConcatenatesNothing) {
  std::vector<float> elsewhere(6);
  EXPECT_DEATH(comm_.gather(ctx_, Tensor::view(elsewhere.data(), DType::kF32, {2, 3}), tensor_),
               "bug: out.data == part.data");
}

}  // namespace
}  // namespace nanovllm
