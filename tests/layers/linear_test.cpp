#include "layers/linear.h"

#include <gtest/gtest.h>

#include "layers/layer_bench.h"

namespace nanovllm {
namespace {

using test::as_vector;
using test::load_layer;
using test::numbered_rows;
using test::numbered_tensor;
using test::Rows;
using test::stacked;
using test::TestCheckpoint;

// q, k, v of 8 heads and as many kv heads as given, 2 wide, 5 inputs; with bias. Numbers: 1, 2, 3 and 4,
// 5, 6.
TestCheckpoint qkv_checkpoint(int num_kv_heads) {
  const int64_t kv = 2 * num_kv_heads;
  return TestCheckpoint(
      {numbered_tensor(1, "attn.q_proj.weight", {16, 5}), numbered_tensor(2, "attn.k_proj.weight", {kv, 5}),
       numbered_tensor(3, "attn.v_proj.weight", {kv, 5}), numbered_tensor(4, "attn.q_proj.bias", {16}),
       numbered_tensor(5, "attn.k_proj.bias", {kv}), numbered_tensor(6, "attn.v_proj.bias", {kv})});
}

TEST(QKVParallelLinear, StacksTheHeadsOfARank) {
  const TestCheckpoint checkpoint = qkv_checkpoint(4);
  for (const int size : {1, 2, 4}) {
    for (int rank = 0; rank < size; ++rank) {
      QKVParallelLinear layer("attn.", 5, 8, 4, 2, {.bias = true}, {rank, size});
      const int64_t q = 16 / size, kv = 8 / size;
      const std::vector<Rows> loaded = load_layer(layer, checkpoint);
      ASSERT_EQ(loaded.size(), 2u);
      EXPECT_EQ(loaded[0],
                stacked({numbered_rows(1, rank * q, q, 0, 5), numbered_rows(2, rank * kv, kv, 0, 5),
                         numbered_rows(3, rank * kv, kv, 0, 5)}));
      EXPECT_EQ(loaded[1],
                as_vector(stacked({numbered_rows(4, rank * q, q, 0, 1), numbered_rows(5, rank * kv, kv, 0, 1),
                                   numbered_rows(6, rank * kv, kv, 0, 1)})));
    }
  }
}

TEST(QKVParallelLinear, RanksShareKvHeadsWhereThereAreFewer) {
  for (const int num_kv_heads : {1, 2}) {
    const TestCheckpoint checkpoint = qkv_checkpoint(num_kv_heads);
    for (int rank = 0; rank < 4; ++rank) {
      QKVParallelLinear layer("attn.", 5, 8, num_kv_heads, 2, {}, {rank, 4});
      const int64_t kv =
          2 * (rank * num_kv_heads / 4);  // first row of the head that this rank's queries read
      const std::vector<Rows> loaded = load_layer(layer, checkpoint);
      ASSERT_EQ(loaded.size(), 1u);
      EXPECT_EQ(loaded[0], stacked({numbered_rows(1, 4 * rank, 4, 0, 5), numbered_rows(2, kv, 2, 0, 5),
                                    numbered_rows(3, kv, 2, 0, 5)}));
    }
  }
}

TEST(MergedColumnParallelLinear, IsGateThenUp) {
  const TestCheckpoint checkpoint(
      {numbered_tensor(2, "up.weight", {12, 5}), numbered_tensor(1, "gate.weight", {12, 5})});
  for (const int size : {1, 2, 4}) {
    for (int rank = 0; rank < size; ++rank) {
      MergedColumnParallelLinear layer({{"gate", 12}, {"up", 12}}, 5, {}, {rank, size});
      const int64_t count = 12 / size;
      EXPECT_EQ(load_layer(layer, checkpoint)[0], stacked({numbered_rows(1, rank * count, count, 0, 5),
                                                           numbered_rows(2, rank * count, count, 0, 5)}));
    }
  }
}

TEST(ReplicatedLinear, EveryRankHasAll) {
  const TestCheckpoint checkpoint(
      {numbered_tensor(1, "a.weight", {5, 3}), numbered_tensor(2, "a.bias", {5})});
  ReplicatedLinear layer("a", 3, 5, {.bias = true}, {3, 4});
  const std::vector<Rows> loaded = load_layer(layer, checkpoint);
  EXPECT_EQ(loaded[0], numbered_rows(1, 0, 5, 0, 3));
  EXPECT_EQ(loaded[1], as_vector(numbered_rows(2, 0, 5, 0, 1)));
}

TEST(RowParallelLinear, EachRankHasItsInputsAndTheFirstTheBias) {
  const TestCheckpoint checkpoint(
      {numbered_tensor(1, "o.weight", {6, 16}), numbered_tensor(2, "o.bias", {6})});
  for (const int size : {1, 2, 4}) {
    for (int rank = 0; rank < size; ++rank) {
      RowParallelLinear layer("o", 16, 6, {.bias = true}, {rank, size});
      const std::vector<Rows> loaded = load_layer(layer, checkpoint);
      EXPECT_EQ(loaded[0], numbered_rows(1, 0, 6, rank * 16 / size, 16 / size));
      ASSERT_EQ(loaded.size(), rank == 0 ? 2u : 1u);
      if (rank == 0) {
        EXPECT_EQ(loaded[1], as_vector(numbered_rows(2, 0, 6, 0, 1)));
      }
    }
  }
}

TEST(RowParallelLinear, GivesFourPartialSumsOrOne) {
  EXPECT_EQ(RowParallelLinear("o", 16, 6, {}, {}).num_partial_sums(), 4);
  EXPECT_EQ(RowParallelLinear("o", 18, 6, {}, {}).num_partial_sums(), 1);
  EXPECT_EQ(RowParallelLinear("o", 16, 6, {}, {1, 2}).num_partial_sums(), 1);
  EXPECT_EQ(RowParallelLinear("o", 16, 6, {}, {3, 4}).num_partial_sums(), 1);
}

TEST(RowParallelLinear, PartialSumsAreQuartersAndTheFirstHasTheBias) {
  const TestCheckpoint checkpoint(
      {numbered_tensor(1, "o.weight", {2, 8}), numbered_tensor(2, "o.bias", {2})});
  RowParallelLinear layer("o", 8, 2, {.bias = true}, {});
  load_layer(layer, checkpoint);
  std::vector<float> x{1, 0, 1, 0, 0, 1, 0, 0}, sums(8);
  test::OpBench bench;
  layer.forward(bench.ctx, Tensor::view(x.data(), DType::kF32, {1, 8}),
                Tensor::view(sums.data(), DType::kF32, {4, 1, 2}));
  const auto w = [](int row, int column) { return test::numbered(1, row, column); };
  EXPECT_EQ(sums,
            (std::vector<float>{w(0, 0) + 2000, w(1, 0) + 2020, w(0, 2), w(1, 2), w(0, 5), w(1, 5), 0, 0}));
}

// The sums of a layer, as add_rms_norm adds them up.
std::vector<float> whole_sum(const std::vector<float>& sums, size_t count) {
  std::vector<float> whole(sums.begin(), sums.begin() + std::ptrdiff_t(count));
  if (sums.size() == 4 * count)
    for (size_t i = 0; i < count; ++i)
      whole[i] = (sums[i] + sums[count + i]) + (sums[2 * count + i] + sums[3 * count + i]);
  return whole;
}

// Every rank has the bits that one rank has, bias and all.
TEST(RowParallelLinear, RanksAddUpToTheBitsOfOne) {
  constexpr int64_t kIn = 24, kOut = 10, kTokens = 7;
  const TestCheckpoint checkpoint(
      {numbered_tensor(1, "o.weight", {kOut, kIn}), numbered_tensor(2, "o.bias", {kOut})});
  std::vector<float> x(kTokens * kIn);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(i * 2654435761u % 2001) - 1000) / 7;
  const auto sums_of = [&](int size) {
    ThreadRanks ranks(size);
    std::vector<std::vector<float>> sums(size_t(size),
                                         std::vector<float>(size == 1 ? 4 * kTokens * kOut : kTokens * kOut));
    std::vector<std::unique_ptr<RowParallelLinear>> layers;
    for (int r = 0; r < size; ++r) {
      layers.push_back(std::make_unique<RowParallelLinear>("o", kIn, kOut, LinearOptions{.bias = true},
                                                           TensorParallel{r, size}));
      load_layer(*layers.back(), checkpoint);
    }
    ranks.run([&](int r) {
      test::OpBench bench(ranks.comm(r));
      const int64_t columns = kIn / size;
      Tensor mine = Tensor::view(x.data() + r * columns, DType::kF32, {kTokens, columns});
      mine.stride[0] = kIn;
      const RowParallelLinear& layer = *layers[size_t(r)];
      layer.forward(
          bench.ctx, mine,
          Tensor::view(sums[size_t(r)].data(), DType::kF32, {layer.num_partial_sums(), kTokens, kOut}));
      EXPECT_EQ(bench.arena.used(), 0u);
    });
    EXPECT_EQ(ranks.exchanges().all_reduces, size == 1 ? 0 : 1);
    return sums;
  };
  const std::vector<float> want = whole_sum(sums_of(1)[0], kTokens * kOut);
  EXPECT_NE(want, std::vector<float>(want.size(), 0));
  for (const int size : {2, 4})
    for (const std::vector<float>& got : sums_of(size)) EXPECT_EQ(got, want) << size << " ranks";
}

TEST(QKVParallelLinear, HeadsAreNotCutInPieces) {
  const auto expect_refused = [](int num_heads, int num_kv_heads, int size, const std::string& text) {
    test::expect_error(ErrorKind::kUnsupported, "attn.qkv_proj: has " + text, [&] {
      QKVParallelLinear("attn.", 5, num_heads, num_kv_heads, 4, {}, {0, size});
    });
  };
  expect_refused(14, 2, 4,
                 "14 heads and 2 kv heads for 4 ranks, want multiples of 4, or kv heads that divide it");
  expect_refused(6, 6, 4, "6 heads and 6 kv heads for 4 ranks");
  expect_refused(12, 3, 2, "12 heads and 3 kv heads for 2 ranks, want multiples of 2");
  expect_refused(12, 6, 4, "12 heads and 6 kv heads for 4 ranks");  // 24 rows would divide, and cut a head
  QKVParallelLinear("attn.", 5, 14, 2, 4, {}, {0, 2});
  QKVParallelLinear("attn.", 5, 12, 2, 4, {}, {0, 4});
}

TEST(RowParallelLinear, RefusesImpossibleSizes) {
  const auto text = [](int64_t in_features, int size) {
    return "o_proj: has " + std::to_string(in_features) + " inputs for " + std::to_string(size) +
           " ranks, want a multiple of 4 inputs and 1, 2 or 4 ranks";
  };
  for (const auto& [in_features, size] :
       std::vector<std::pair<int64_t, int>>{{6, 2}, {6, 3}, {12, 3}, {16, 8}})
    test::expect_error(ErrorKind::kUnsupported, text(in_features, size), [&] {
      RowParallelLinear("o_proj", in_features, 4, {}, {0, size});
    });
  test::expect_error(ErrorKind::kUnsupported, "o_proj", [] {
    RowParallelLinear("o_proj", 6, 4, {}, {0, 4});
  });
}

}  // namespace
}  // namespace nanovllm
