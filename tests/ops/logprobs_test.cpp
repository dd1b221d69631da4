// Logprobs of the likeliest tokens and of given ones (ops/logprobs.h).
#include "ops/logprobs.h"

#include <algorithm>
#include <numeric>

#include "ops/ops_fixture.h"

namespace nanovllm {
namespace {

using namespace test;

class LogprobsTest : public OpTest {
 protected:
  struct Result {
    std::vector<float> norms, top_logprobs, token_logprobs;
    std::vector<int32_t> top_ids;
  };
  // Of these rows; ids: one for each row of logits.
  Result run(const Floats& logits, const std::vector<int32_t>& rows, int64_t num_top,
             const std::vector<int32_t>& ids) {
    const auto n = int64_t(rows.size());
    Ints row_ids({n}), token_ids({int64_t(ids.size())});
    std::copy(rows.begin(), rows.end(), row_ids.data());
    std::copy(ids.begin(), ids.end(), token_ids.data());
    Floats norms({n, 2}), packed({n, 1 + 2 * num_top}, -7);
    const auto part = [&](int64_t first, int64_t count, DType dtype) {
      Tensor tensor = Tensor::view(packed.data() + first, dtype, {n, count});
      tensor.stride[0] = 1 + 2 * num_top;
      return tensor;
    };
    OpContext op(ops_named(GetParam()), 2, size_t{1} << 20);
    top_logprobs(op.ctx, {.logits = logits,
                          .rows = row_ids,
                          .norms = norms,
                          .top_ids = part(1, num_top, DType::kI32),
                          .top_logprobs = part(1 + num_top, num_top, DType::kF32)});
    token_logprobs(op.ctx, {.logits = logits,
                            .rows = row_ids,
                            .norms = norms,
                            .ids = token_ids,
                            .out = part(0, 1, DType::kF32)});
    Result result{.norms = {norms.data(), norms.data() + 2 * n}};
    for (int64_t i = 0; i < n; ++i) {
      const float* row = packed.data() + i * (1 + 2 * num_top);
      result.token_logprobs.push_back(row[0]);
      for (int64_t k = 1; k <= num_top; ++k) result.top_ids.push_back(std::bit_cast<int32_t>(row[k]));
      result.top_logprobs.insert(result.top_logprobs.end(), row + 1 + num_top, row + 1 + 2 * num_top);
    }
    return result;
  }
};
INSTANTIATE_OP_TEST(LogprobsTest);

double log_sum(std::span<const float> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(double(x) - max);
  return max + std::log(sum);
}

// The sum is within 2^-19 of the real one: an id's weight is off by 2 ULP and what two roundings make of its argument, 2^-23 of up to
// 21, and rounded down by 2^-30 of its chunk's largest, of 2,048 ids. Its log adds 2 ULP or 1e-7, the two differences half an ULP each.
TEST_P(LogprobsTest, AreThoseOfSoftmax) {
  WorstError worst("logprob_error_of_bound", 1);
  for (const int64_t vocab : {1, 5, 100, 2048, 2049, 20001, 151936})
    for (const float scale : {0.01f, 3.0f, 60.0f}) {
      const Floats logits = random_floats({3, vocab}, uint32_t(vocab), scale);
      const auto num_top = std::min<int64_t>(vocab, 20);
      const std::vector<int32_t> rows{2, 0}, ids{int32_t(vocab - 1), 0, int32_t(vocab / 2)};
      const Result got = run(logits, rows, num_top, ids);
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::span<const float> row = logits.span().subspan(size_t(rows[i] * vocab), size_t(vocab));
        std::vector<int32_t> order(static_cast<size_t>(vocab));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order,
                                 [&](int32_t a, int32_t b) { return row[size_t(a)] > row[size_t(b)]; });
        const auto check = [&](float logprob, int32_t id) {
          const double want = double(row[size_t(id)]) - log_sum(row);
          worst.add(logprob, want, 0x1p-19 + 1e-7 + 0x1p-22 * std::abs(want) + 0x1p-22 * 12, "id", id);
        };
        for (int64_t k = 0; k < num_top; ++k) {
          const size_t at = i * size_t(num_top) + size_t(k);
          ASSERT_EQ(got.top_ids[at], order[size_t(k)]) << vocab << " place " << k;
          check(got.top_logprobs[at], got.top_ids[at]);
        }
        check(got.token_logprobs[i], ids[size_t(rows[i])]);
      }
    }
}

// Ties in every number: of all equal, of 3,000 in a row where the list that is sorted holds 2,048, and over chunks.
TEST_P(LogprobsTest, TiesGoToTheLowerId) {
  for (const int64_t num_top : {1, 2, 20, 64}) {
    Floats logits({3, 9000}, 1.5f);
    for (int64_t id = 0; id < 9000; ++id) {
      logits[size_t(9000 + id)] = float(id % 10);  // 900 of each
      logits[size_t(18000 + id)] = id >= 5000 && id < 8000 ? 2.0f : -1.0f;
    }
    const Result got = run(logits, {0, 1, 2}, num_top, {0, 0, 0});
    for (int64_t k = 0; k < num_top; ++k) {
      EXPECT_EQ(got.top_ids[size_t(k)], k);
      EXPECT_EQ(got.top_ids[size_t(num_top + k)], 9 + 10 * k);
      EXPECT_EQ(got.top_ids[size_t(2 * num_top + k)], 5000 + k);
    }
    EXPECT_NEAR(got.token_logprobs[0], -std::log(9000.0), 1e-5);
  }
}

// No token likeliest is asked for: only that of each row.
TEST_P(LogprobsTest, NoneOfTheLikeliest) {
  const Floats logits = random_floats({2, 50}, 1, 2);
  const Result got = run(logits, {1}, 0, {3, 4});
  EXPECT_NEAR(got.token_logprobs[0], double(logits[54]) - log_sum(logits.span().subspan(50)), 1e-5);
}

TEST_P(LogprobsTest, MaskedAndSickRows) {
  Floats logits({4, 6}, -kInfinity);
  logits[3] = 2;  // one is left
  for (int i = 6; i < 12; ++i) logits[size_t(i)] = float(i);
  logits[8] = kNan;
  logits[17] = kInfinity;
  const Result got = run(logits, {0, 1, 2, 3}, 3, {3, 0, 0, -1});
  EXPECT_EQ(got.token_logprobs[0], 0);
  EXPECT_EQ((std::vector<int32_t>(got.top_ids.begin(), got.top_ids.begin() + 3)),
            (std::vector<int32_t>{3, 0, 1}));
  EXPECT_EQ(got.top_logprobs[1], -kInfinity);
  for (int row = 1; row < 4; ++row) {
    EXPECT_TRUE(std::isnan(got.token_logprobs[size_t(row)])) << row;
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(got.top_ids[size_t(3 * row + k)], k);
      EXPECT_TRUE(std::isnan(got.top_logprobs[size_t(3 * row + k)]));
    }
  }
}

TEST(LogprobsBits, AreEqualOnAllBackends) {
  const Floats logits = random_floats({5, 12345}, 9, 8);
  const std::vector<std::string> sets = backends();
  std::vector<std::vector<float>> all;
  for (const std::string& set : sets) {
    OpContext op(ops_named(set), 2, size_t{1} << 20);
    Ints rows({5}), top_ids({5, 30});
    std::iota(rows.data(), rows.data() + 5, 0);
    Floats norms({5, 2}), logprobs({5, 30});
    top_logprobs(
        op.ctx,
        {.logits = logits, .rows = rows, .norms = norms, .top_ids = top_ids, .top_logprobs = logprobs});
    all.emplace_back(logprobs.span().begin(), logprobs.span().end());
    all.back().insert(all.back().end(), norms.span().begin(), norms.span().end());
    EXPECT_TRUE(same_bits(all.back(), all.front())) << set;
  }
}

}  // namespace
}  // namespace nanovllm
