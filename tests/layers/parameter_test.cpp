#include "layers/parameter.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

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

TEST(Parameter, PaddedRowsAreZerosAtTheEndOfTheLastRanks) {
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {5, 3}), numbered_tensor(2, "b", {40, 3})});
  for (const int size : {1, 2, 4}) {
    const int64_t count = (5 + size - 1) / size;
    for (int rank = 0; rank < size; ++rank) {
      const int64_t begin = std::min<int64_t>(5, rank * count), in_file = std::min(count, 5 - begin);
      Rows want = numbered_rows(1, begin, in_file, 0, 3);
      want.resize(size_t(count), std::vector<float>(3, 0));
      EXPECT_EQ(load(Parameter::matrix({{"a", 5}}, 3, Shard::kPaddedRows, {rank, size}), checkpoint), want)
          << rank << " of " << size;
      EXPECT_EQ(load(Parameter::matrix({{"b", 40}}, 3, Shard::kPaddedRows, {rank, size}), checkpoint),
                numbered_rows(2, rank * 40 / size, 40 / size, 0, 3));
    }
  }
}

// Makes whole pages of a mapped file unreadable: whoever touches them ends in a signal.
class NoEntry {
 public:
  NoEntry(const std::byte* begin, const std::byte* end) {
    const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    const uintptr_t first = (uintptr_t(begin) + page - 1) / page * page, last = uintptr_t(end) / page * page;
    if (last <= first) return;
    data_ = reinterpret_cast<void*>(first);
    bytes_ = last - first;
    EXPECT_EQ(mprotect(data_, bytes_, PROT_NONE), 0);
  }
  ~NoEntry() {
    if (data_) mprotect(data_, bytes_, PROT_READ);
  }
  NoEntry(const NoEntry&) = delete;
  NoEntry& operator=(const NoEntry&) = delete;
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

TEST(Parameter, ARankReadsOnlyItsShareOfTheFile) {
  constexpr int64_t kRows = 8, kColumns = 8192;  // a quarter of a row is two pages
  const TestCheckpoint checkpoint({numbered_tensor(1, "a", {kRows, kColumns})});
  const std::byte* data = (*checkpoint).find("a")->data.data();
  constexpr int64_t kSize = 4;
  for (const Shard shard : {Shard::kRows, Shard::kPaddedRows, Shard::kColumns}) {
    const bool columns = shard == Shard::kColumns;
    for (int rank = 0; rank < kSize; ++rank) {
      std::vector<std::unique_ptr<NoEntry>> closed;
      size_t closed_bytes = 0;
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t quarter = 0; quarter < kSize; ++quarter) {
          if ((columns ? quarter : row / (kRows / kSize)) == rank) continue;
          const std::byte* begin =
              data + (row * kColumns + quarter * kColumns / kSize) * int64_t(sizeof(float));
          closed.push_back(std::make_unique<NoEntry>(begin, begin + kColumns / kSize * sizeof(float)));
          closed_bytes += closed.back()->bytes();
        }
      EXPECT_GT(closed_bytes, size_t(kRows * kColumns) * 4 / 4);
      const Rows rows = load(Parameter::matrix({{"a", kRows}}, kColumns, shard, {rank, kSize}), checkpoint);
      EXPECT_EQ(rows, columns ? numbered_rows(1, 0, kRows, rank * kColumns / kSize, kColumns / kSize)
                              : numbered_rows(1, rank * kRows / kSize, kRows / kSize, 0, kColumns));
    }
  }
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
