#include "tensor/tensor.h"

#include <numeric>
#include <vector>

#include "support.h"

namespace nanovllm {
namespace {

class TensorTest : public testing::Test {
 protected:
  TensorTest() { std::iota(values.begin(), values.end(), 0.0f); }

  std::vector<float> values = std::vector<float>(24);
  Tensor tensor = Tensor::view(values.data(), DType::kF32, {2, 3, 4});
};

TEST_F(TensorTest, AViewIsContiguous) {
  EXPECT_EQ(tensor.rank, 3);
  EXPECT_EQ(tensor.num_elements(), 24);
  EXPECT_TRUE(tensor.defined());
  EXPECT_TRUE(tensor.contiguous());
  EXPECT_EQ(tensor.stride[0], 12);
  EXPECT_EQ(tensor.stride[1], 4);
  EXPECT_EQ(tensor.stride[2], 1);
}

TEST_F(TensorTest, OneNumberAndNone) {
  const Tensor one = Tensor::view(values.data(), DType::kF32, {});
  EXPECT_EQ(one.num_elements(), 1);
  EXPECT_TRUE(one.contiguous());
  EXPECT_EQ(Tensor::view(values.data(), DType::kF32, {3, 0}).num_elements(), 0);
  EXPECT_FALSE(Tensor().defined());
}

TEST_F(TensorTest, ASliceKeepsTheRank) {
  const Tensor t = tensor.slice(1, 1);
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.shape[0], 1);
  EXPECT_EQ(t.ptr<float>(), values.data() + 12);
  EXPECT_EQ(tensor.slice(2, 0).num_elements(), 0);
  EXPECT_EQ(tensor.slice(0, 2).data, tensor.data);
}

TEST_F(TensorTest, AnElementIsOneRankLower) {
  const Tensor t = tensor[1][2];
  EXPECT_EQ(t.rank, 1);
  EXPECT_EQ(t.shape[0], 4);
  EXPECT_EQ(t.stride[0], 1);
  EXPECT_EQ(t.ptr<float>()[3], 23.0f);
  EXPECT_EQ(t[3].rank, 0);
  EXPECT_EQ(*t[3].ptr<float>(), 23.0f);
}

TEST_F(TensorTest, SlicesCountInElementsOfTheType) {
  std::vector<uint16_t> halves(12);
  const Tensor t = Tensor::view(halves.data(), DType::kBF16, {4, 3});
  EXPECT_EQ(t[2].ptr<uint16_t>(), halves.data() + 6);
  EXPECT_EQ(t.slice(3, 1).ptr<uint16_t>(), halves.data() + 9);
  EXPECT_EQ(heads(t, 2, 1, 1).ptr<uint16_t>(), halves.data() + 2);
}

TEST_F(TensorTest, HeadsOfPackedRowsAreStrided) {
  const Tensor packed = Tensor::view(values.data(), DType::kF32, {2, 12});  // 6 heads of 2
  const Tensor t = heads(packed, 4, 2, 2);
  EXPECT_EQ(to_string(t), "[2, 2, 2] f32");
  EXPECT_FALSE(t.contiguous());
  EXPECT_EQ(t[0][0].ptr<float>()[0], 8.0f);
  EXPECT_EQ(t[1][1].ptr<float>()[1], 23.0f);
  EXPECT_TRUE(heads(packed, 0, 6, 2).contiguous());
}

TEST_F(TensorTest, ARowOfOneIsContiguousWhateverItsStride) {
  const Tensor packed = Tensor::view(values.data(), DType::kF32, {2, 12});
  EXPECT_TRUE(heads(packed, 1, 2, 2).slice(0, 1).contiguous());
  EXPECT_FALSE(heads(packed, 1, 2, 2).contiguous());
}

TEST_F(TensorTest, SaysShapeAndType) {
  EXPECT_EQ(to_string(tensor), "[2, 3, 4] f32");
  EXPECT_EQ(to_string(Tensor::view(values.data(), DType::kI32, {7})), "[7] i32");
  EXPECT_EQ(to_string(Tensor::view(values.data(), DType::kF16, {})), "[] f16");
}

using TensorDeathTest = TensorTest;

TEST_F(TensorDeathTest, WhatLiesOutsideIsABug) {
  EXPECT_DEATH(tensor.slice(1, 2), "begin");
  EXPECT_DEATH(tensor.slice(-1, 1), "begin");
  EXPECT_DEATH(tensor[2], "begin");
  EXPECT_DEATH(Tensor::view(values.data(), DType::kF32, {})[0], "rank");
  EXPECT_DEATH(heads(tensor, 0, 1, 1), "rank");
  EXPECT_DEATH(heads(Tensor::view(values.data(), DType::kF32, {2, 12}), 5, 2, 2), "shape");
  EXPECT_DEATH(Tensor::view(values.data(), DType::kF32, {1, 1, 1, 1, 1}), "size");
}

}  // namespace
}  // namespace nanovllm
