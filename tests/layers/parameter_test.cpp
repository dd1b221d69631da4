#include "layers/parameter.h"

#include <gtest/gtest.h>

#include "layers/layer_bench.h"

namespace nanovllm {
namespace {

using test::numbered_rows;
using test::numbered_tensor;
using test::Rows;
using test::stacked;
using test::TestCheckpoint;

Rows load(Parameter parameter, const TestCheckpoint& checkpoint) {
  test::OpBench bench;
  parameter.load(bench.ctx, *checkpoint);
  const Rows rows = test::read_parameter(parameter);
  if (parameter.weight().defined()) {
    EXPECT_EQ(int64_t(rows.size()), parameter.rows());
    EXPECT_EQ(int64_t(rows[0].size()), parameter.in_features());
  } else {
    EXPECT_EQ(int64_t(rows[0].size()), parameter.rows());
  }
  EXPECT_GE(parameter.bytes(), rows.size() * rows[0].size() * sizeof(float));
  return rows;
}

TEST(Parameter, OneRankHasAll) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {40, 12})});
  for (const Shard shard : {Shard::kReplicated, Shard::kRows, Shard::kColumns})
    EXPECT_EQ(load(Parameter::matrix({{"a", 40}}, 12, shard, {}), checkpoint),
              numbered_rows(1, 0, 40, 0, 12));
}

TEST(Parameter, EachRankHasItsRows) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {40, 12})});
  for (const int size : {2, 4})
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(load(Parameter::matrix({{"a", 40}}, 12, Shard::kRows, {rank, size}), checkpoint),
                numbered_rows(1, rank * 40 / size, 40 / size, 0, 12))
          << rank << " of " << size;
}

TEST(Parameter, EachRankHasItsColumns) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {37, 12})});
  for (const int size : {2, 4})
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(load(Parameter::matrix({{"a", 37}}, 12, Shard::kColumns, {rank, size}), checkpoint),
                numbered_rows(1, 0, 37, rank * 12 / size, 12 / size))
          << rank << " of " << size;
}

TEST(Parameter, EveryRankHasAllOfAReplicatedOne) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {5, 3}), numbered_tensor(2, "b", {7})});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(load(Parameter::matrix({{"a", 5}}, 3, Shard::kReplicated, {rank, 4}), checkpoint),
              numbered_rows(1, 0, 5, 0, 3));
    EXPECT_EQ(load(Parameter::vector({{"b", 7}}, Shard::kReplicated, {rank, 4}), checkpoint),
              test::as_vector(numbered_rows(2, 0, 7, 0, 1)));
  }
}

TEST(Parameter, PartsAreCutOneByOneAndStacked) {
  const TestCheckpoint checkpoint(
      {numbered_tensor(1, "a", {16, 5}), numbered_tensor(2, "b", {8, 5}), numbered_tensor(3, "c", {4, 5})});
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(
        load(Parameter::matrix({{"b", 8}, {"a", 16}, {"c", 4}}, 5, Shard::kRows, {rank, 4}), checkpoint),
        stacked({numbered_rows(2, 2 * rank, 2, 0, 5), numbered_rows(1, 4 * rank, 4, 0, 5),
                 numbered_rows(3, rank, 1, 0, 5)}));
}

TEST(Parameter, NeighboursShareAShardWhereThereAreFewer) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "q", {8}), numbered_tensor(2, "k", {6})});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(load(Parameter::vector({{"q", 8}, {"k", 6, 2}}, Shard::kRows, {rank, 4}), checkpoint),
              test::as_vector(
                  stacked({numbered_rows(1, 2 * rank, 2, 0, 1), numbered_rows(2, rank / 2 * 3, 3, 0, 1)})));
    EXPECT_EQ(load(Parameter::vector({{"k", 6, 1}}, Shard::kRows, {rank, 4}), checkpoint),
              test::as_vector(numbered_rows(2, 0, 6, 0, 1)));
  }
}

TEST(Parameter, OfAnotherShapeNamesFileTensorAndBothShapes) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {4, 3}), numbered_tensor(2, "b", {4})});
  test::OpBench bench;
  const auto expect_refused = [&](Parameter parameter, const std::string& text) {
    test::expect_error(ErrorKind::kCheckpoint, checkpoint.file() + text,
                       [&] { parameter.load(bench.ctx, *checkpoint); });
  };
  expect_refused(Parameter::matrix({{"a", 5}}, 3, Shard::kRows, {}),
                 ": a is [4, 3] f32, want [5, 3] as config.json says");
  expect_refused(Parameter::matrix({{"a", 4}}, 2, Shard::kRows, {}),
                 ": a is [4, 3] f32, want [4, 2] as config.json says");
  expect_refused(Parameter::matrix({{"b", 4}}, 1, Shard::kRows, {}),
                 ": b is [4] f32, want [4, 1] as config.json says");
  expect_refused(Parameter::vector({{"a", 4}}, Shard::kRows, {}),
                 ": a is [4, 3] f32, want [4] as config.json says");
  expect_refused(Parameter::vector({{"b", 3}}, Shard::kRows, {}),
                 ": b is [4] f32, want [3] as config.json says");
}

// A cut must hit the whole tensor's shape, not this rank's share of it.
TEST(Parameter, AShardIsNotTheWholeTensor) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {4, 4})});
  test::OpBench bench;
  Parameter rows = Parameter::matrix({{"a", 8}}, 4, Shard::kRows, {0, 2});
  test::expect_error(ErrorKind::kCheckpoint, "a is [4, 4] f32, want [8, 4]",
                     [&] { rows.load(bench.ctx, *checkpoint); });
  Parameter columns = Parameter::matrix({{"a", 4}}, 8, Shard::kColumns, {0, 2});
  test::expect_error(ErrorKind::kCheckpoint, "a is [4, 4] f32, want [4, 8]",
                     [&] { columns.load(bench.ctx, *checkpoint); });
}

TEST(Parameter, RefusesSizesThatDoNotDivideAmongTheRanks) {
  test::expect_error(ErrorKind::kUnsupported,
                     "a: has 6 rows, want a multiple of 4 to split them over 4 ranks", [] {
                       Parameter::matrix({{"a", 6}}, 4, Shard::kRows, {0, 4});
                     });
  test::expect_error(ErrorKind::kUnsupported,
                     "b: has 5 rows, want a multiple of 2 to split them over 2 ranks", [] {
                       Parameter::vector({{"a", 6}, {"b", 5}}, Shard::kRows, {0, 2});
                     });
  test::expect_error(ErrorKind::kUnsupported, "a: has 3 shards for 4 ranks, want a number that divides them",
                     [] {
                       Parameter::matrix({{"a", 6, 3}}, 4, Shard::kRows, {0, 4});
                     });
  test::expect_error(ErrorKind::kUnsupported,
                     "a: has 6 inputs, want a multiple of 4 to split them over 4 ranks", [] {
                       Parameter::matrix({{"a", 4}}, 6, Shard::kColumns, {0, 4});
                     });
}

TEST(ParameterDeathTest, IsFilledOnce) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {4, 3})});
  test::OpBench bench;
  Parameter parameter = Parameter::matrix({{"a", 4}}, 3, Shard::kRows, {});
  parameter.load(bench.ctx, *checkpoint);
  EXPECT_DEATH(parameter.load(bench.ctx, *checkpoint), "bug: !weight_.defined");
}

}  // namespace
}  // namespace nanovllm
