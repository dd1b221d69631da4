#include "parallel/thread_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "engine/allocation_count.h"
#include "ops/cpu/cpu_ops.h"
#include "support.h"

namespace nanovllm {
namespace {

using std::chrono::milliseconds;

// A rank's tools.
struct Bench {
  explicit Bench(Communicator& comm, int num_threads = 1)
      : threads(num_threads), ctx{.ops = cpu_ops(), .arena = arena, .comm = comm, .threads = &threads} {}

  Arena arena{host_device(), 0};
  ThreadPool threads;
  Context ctx;
};

std::vector<std::unique_ptr<Bench>> benches(ThreadRanks& ranks, int num_threads = 1) {
  std::vector<std::unique_ptr<Bench>> result;
  for (int r = 0; r < ranks.size(); ++r)
    result.push_back(std::make_unique<Bench>(ranks.comm(r), num_threads));
  return result;
}

Tensor matrix(std::vector<float>& values, int64_t columns) {
  return Tensor::view(values.data(), DType::kF32, {int64_t(values.size()) / columns, columns});
}

std::vector<std::vector<float>> random_values(int size, size_t count) {
  std::mt19937 random(uint32_t(count) + 1);
  std::uniform_real_distribution<float> value(-100, 100);
  std::vector<std::vector<float>> result(static_cast<size_t>(size), std::vector<float>(count));
  for (auto& values : result)
    for (float& v : values) v = value(random);
  return result;
}

TEST(ThreadRanks, KnowTheirPlaces) {
  for (const int size : {1, 2, 4}) {
    ThreadRanks ranks(size);
    EXPECT_EQ(ranks.size(), size);
    for (int r = 0; r < size; ++r) {
      EXPECT_EQ(ranks.comm(r).rank(), r);
      EXPECT_EQ(ranks.comm(r).size(), size);
    }
  }
}

TEST(ThreadRanks, EachRankHasAThreadOfItsOwnAndRank0TheCallers) {
  ThreadRanks ranks(4);
  std::thread::id first[4], second[4];
  ranks.run([&](int rank) { first[rank] = std::this_thread::get_id(); });
  ranks.run([&](int rank) { second[rank] = std::this_thread::get_id(); });
  EXPECT_EQ(first[0], std::this_thread::get_id());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(first[r], second[r]);
    for (int other = 0; other < r; ++other) EXPECT_NE(first[r], first[other]);
  }
}

TEST(ThreadRanks, OneTwoOrFour) {
  for (const int size : {-1, 0, 3, 5, 8})
    test::expect_error(ErrorKind::kConfig,
                       "tensor_parallel_size: is " + std::to_string(size) + ", want 1, 2 or 4",
                       [&] { ThreadRanks ranks(size); });
}

// The order of the sum is the definition's: (r0 + r1) + (r2 + r3), and every rank has all of it.
TEST(ThreadRanks, AllReduceIsTheTree) {
  for (const int size : {1, 2, 4}) {
    ThreadRanks ranks(size);
    for (const int num_threads : {1, 2}) {
      const auto tools = benches(ranks, num_threads);
      for (const size_t count : {1, 15, 16, 17, 64, 65, 1000, 100003}) {
        auto values = random_values(size, count);
        std::vector<float> want = values[0];
        if (size == 2)
          for (size_t i = 0; i < count; ++i) want[i] = values[0][i] + values[1][i];
        if (size == 4)
          for (size_t i = 0; i < count; ++i)
            want[i] = (values[0][i] + values[1][i]) + (values[2][i] + values[3][i]);
        ranks.run([&](int r) {
          ranks.comm(r).all_reduce_sum(tools[size_t(r)]->ctx, matrix(values[size_t(r)], int64_t(count)));
        });
        for (const auto& got : values) ASSERT_EQ(got, want) << size << " ranks, " << count;
      }
    }
  }
}

// Ops flush denormals to zero on the pool's threads; a sum over ranks must not see more than a sum in an op.
TEST(ThreadRanks, AllReduceFlushesDenormalsAsOpsDo) {
#if defined(__x86_64__)
  ThreadRanks ranks(2);
  const auto tools = benches(ranks);
  std::vector<float> values[2] = {{2e-38f, 1e-39f, 1.5e-38f}, {1e-39f, 1e-39f, -1.2e-38f}};
  ranks.run([&](int r) { ranks.comm(r).all_reduce_sum(tools[size_t(r)]->ctx, matrix(values[r], 3)); });
  EXPECT_EQ(values[0], (std::vector<float>{2e-38f, 0, 0}));
  EXPECT_EQ(values[1], values[0]);
#endif
}

TEST(ThreadRanks, NoRowsAreNothing) {
  ThreadRanks ranks(4);
  const auto tools = benches(ranks);
  float unused = 3;
  ranks.run([&](int r) {
    const Tensor none = Tensor::view(&unused, DType::kF32, {0, 8});
    ranks.comm(r).all_reduce_sum(tools[size_t(r)]->ctx, none);
    ranks.comm(r).gather(tools[size_t(r)]->ctx, r == 0 ? none : Tensor{}, none);
  });
  EXPECT_EQ(unused, 3);
}

TEST(ThreadRanks, GatherPutsPartsSideBySideAndDropsThePadding) {
  for (const int size : {2, 4}) {
    ThreadRanks ranks(size);
    const auto tools = benches(ranks);
    constexpr int64_t kRows = 3, kWidth = 5;
    for (int64_t width = 1; width <= size * kWidth; ++width) {
      auto parts = random_values(size, kRows * kWidth);
      std::vector<float> out(size_t(kRows * width), -1);
      ranks.run([&](int r) {
        ranks.comm(r).gather(tools[size_t(r)]->ctx, r == 0 ? matrix(out, width) : Tensor{},
                             matrix(parts[size_t(r)], kWidth));
      });
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t c = 0; c < width; ++c)
          ASSERT_EQ(out[size_t(row * width + c)],
                    parts[size_t(c / kWidth)][size_t(row * kWidth + c % kWidth)])
              << size << " ranks, " << width << " columns, at " << row << ", " << c;
    }
  }
}

TEST(ThreadRanks, CountsWhatRank0TakesPartIn) {
  ThreadRanks ranks(2);
  const auto tools = benches(ranks);
  std::vector<float> a(8), b(8), out(16);
  for (int i = 0; i < 3; ++i)
    ranks.run([&](int r) {
      Context& ctx = tools[size_t(r)]->ctx;
      const Tensor mine = matrix(r ? a : b, 8);
      ctx.comm.all_reduce_sum(ctx, mine);
      ctx.comm.all_reduce_sum(ctx, mine);
      ctx.comm.gather(ctx, r ? Tensor{} : matrix(out, 16), mine);
    });
  EXPECT_EQ(ranks.exchanges().runs, 3);
  EXPECT_EQ(ranks.exchanges().all_reduces, 6);
  EXPECT_EQ(ranks.exchanges().gathers, 3);
}

TEST(ThreadRanks, ARunAllocatesNothing) {
  ThreadRanks ranks(4);
  const auto tools = benches(ranks);
  auto values = random_values(4, 1000);
  std::vector<float> out(4000);
  const auto step = [&] {
    ranks.run([&](int r) {
      Context& ctx = tools[size_t(r)]->ctx;
      ctx.comm.all_reduce_sum(ctx, matrix(values[size_t(r)], 100));
      ctx.comm.gather(ctx, r ? Tensor{} : matrix(out, 400), matrix(values[size_t(r)], 100));
    });
  };
  step();
  const size_t before = test::num_allocations();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(test::num_allocations() - before, 0u);
}

// Ranks that come early, late and after a pause: nobody reads what is of another exchange.
TEST(ThreadRanks, ManyExchangesInAnyTiming) {
  for (const int size : {2, 4}) {
    ThreadRanks ranks(size);
    const auto tools = benches(ranks);
    std::vector<std::vector<float>> values(static_cast<size_t>(size), std::vector<float>(4));
    std::vector<float> out(static_cast<size_t>(4 * size));
    for (int run = 0; run < 300; ++run) {
      ranks.run([&](int r) {
        std::mt19937 random(uint32_t(run * 4 + r));
        Context& ctx = tools[size_t(r)]->ctx;
        const Tensor mine = matrix(values[size_t(r)], 4);
        for (int i = 0; i < 10; ++i) {
          if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
          std::fill_n(mine.ptr<float>(), 4, float(run + i + r));
          if (random() % 8 == 0) std::this_thread::yield();
          if (i % 3 == 2) {
            ctx.comm.gather(ctx, r ? Tensor{} : matrix(out, 4 * size), mine);
            for (int c = 0; r == 0 && c < 4 * size; ++c) ASSERT_EQ(out[size_t(c)], float(run + i + c / 4));
          } else {
            ctx.comm.all_reduce_sum(ctx, mine);
            ASSERT_EQ(mine.ptr<float>()[3], float(size * (run + i) + size * (size - 1) / 2));
          }
        }
      });
    }
  }
}

// What a rank throws comes out of run, names the rank, and ends the group; those that wait do not wait for ever.
TEST(ThreadRanks, ARankThatFailsEndsTheGroup) {
  for (const int size : {2, 4}) {
    for (int failing = 0; failing < size; ++failing) {
      ThreadRanks ranks(size);
      const auto tools = benches(ranks);
      auto values = random_values(size, 8);
      int num_bodies = 0;
      std::atomic<int> inside{0};
      const auto run = [&] {
        ranks.run([&](int r) {
          ++inside;
          if (r == 0) ++num_bodies;
          ranks.comm(r).all_reduce_sum(tools[size_t(r)]->ctx, matrix(values[size_t(r)], 8));
          if (r == failing) {
            --inside;
            fail(ErrorKind::kOutOfMemory, "no memory");
          }
          try {
            ranks.comm(r).all_reduce_sum(tools[size_t(r)]->ctx, matrix(values[size_t(r)], 8));
          } catch (const Error&) {
            --inside;
            throw;
          }
        });
      };
      const std::string text =
          "rank " + std::to_string(failing) + " of " + std::to_string(size) + ": no memory";
      for (int i = 0; i < 2; ++i) {
        try {
          run();
          ADD_FAILURE() << "no error, want: " << text;
        } catch (const Error& error) {
          EXPECT_EQ(error.what(), text);  // of the one that failed, not of those that waited for it
          EXPECT_EQ(int(error.kind()), int(ErrorKind::kOutOfMemory));
        }
        EXPECT_EQ(inside, 0);      // nobody is left in the body
        EXPECT_EQ(num_bodies, 1);  // and nobody enters it again
      }
    }
  }
}

TEST(ThreadRanks, OtherExceptionsEndItToo) {
  ThreadRanks ranks(2);
  test::expect_error(ErrorKind::kDevice, "rank 1 of 2: vector", [&] {
    ranks.run([&](int r) {
      if (r == 1) throw std::out_of_range("vector");
    });
  });
}

TEST(ThreadRanks, OneRankMayFailAndGoOn) {
  ThreadRanks ranks(1);
  test::expect_error(ErrorKind::kRequest, "bad",
                     [&] { ranks.run([](int) { fail(ErrorKind::kRequest, "bad"); }); });
  int done = 0;
  ranks.run([&](int) { ++done; });
  EXPECT_EQ(done, 1);
}

// Ranks that disagree would read each other's wrong memory, or wait for ever.
TEST(ThreadRanks, RanksThatDisagreeAreTold) {
  std::vector<float> a(8), b(8), out(16);
  const auto expect_told = [&](const std::string& text, auto body) {
    ThreadRanks ranks(2);
    const auto tools = benches(ranks);
    test::expect_error(ErrorKind::kDevice, text,
                       [&] { ranks.run([&](int r) { body(r, tools[size_t(r)]->ctx); }); });
  };
  expect_told(
      "rank 0 of 2: is at all_reduce_sum of [1, 8], and rank 1 at gather of [1, 8], want the same exchange",
      [&](int r, Context& ctx) {
        r ? ctx.comm.gather(ctx, {}, matrix(a, 8)) : ctx.comm.all_reduce_sum(ctx, matrix(b, 8));
      });
  expect_told("is at all_reduce_sum of [2, 4], and rank 1 at all_reduce_sum of [1, 8]",
              [&](int r, Context& ctx) { ctx.comm.all_reduce_sum(ctx, matrix(r ? a : b, r ? 8 : 4)); });
  expect_told("rank 0 of 2: is at the end of the step, and rank 1 at all_reduce_sum of [1, 8]",
              [&](int r, Context& ctx) {
                if (r) ctx.comm.all_reduce_sum(ctx, matrix(a, 8));
              });
  expect_told("rank 0 of 2: is at gather of [1, 8], and rank 1 at the end of the step",
              [&](int r, Context& ctx) {
                if (r == 0) ctx.comm.gather(ctx, matrix(out, 16), matrix(a, 8));
              });
}

// late: which rank comes after patience is over, but comes.
class LateRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Late, LateRanks, testing::Values(0, 1));

TEST_P(LateRanks, AreNotWaitedForLong) {
  ThreadRanks ranks(2, milliseconds(500));
  const auto tools = benches(ranks);
  std::vector<float> values[2] = {std::vector<float>(8), std::vector<float>(8)};
  std::atomic<bool> given_up{false};
  const int late = GetParam();
  const std::string text =
      "rank " + std::to_string(1 - late) + " of 2: waited 500 ms for its fellows at all_reduce_sum of [1, 8]";
  for (int i = 0; i < 2; ++i)
    test::expect_error(ErrorKind::kDevice, text, [&] {
      ranks.run([&](int r) {
        while (r == late && !given_up) std::this_thread::yield();
        try {
          ranks.comm(r).all_reduce_sum(tools[size_t(r)]->ctx, matrix(values[r], 8));
        } catch (const Error&) {
          given_up = true;
          throw;
        }
      });
    });
}

// A thread that never returns uses what run() would destroy: the program ends rather than hang.
TEST(ThreadRanksDeathTest, ARankThatNeverReturnsEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ThreadRanks ranks(2, milliseconds(50));
        ranks.run([&](int r) {
          while (r == 1) std::this_thread::sleep_for(milliseconds(1));
        });
      },
      testing::ExitedWithCode(1),
      "error: rank 0 of 2: waited 50 ms for its fellows at the end of the step; a rank does not return");
}

TEST(ThreadRanks, WorkOfAnyLengthIsWaitedFor) {
  ThreadRanks ranks(2, milliseconds(1));
  bool done = false;
  ranks.run(
      [&](int r) {
        if (r == 0) return;
        std::this_thread::sleep_for(milliseconds(100));
        done = true;
      },
      ThreadRanks::Wait::kForever);
  EXPECT_TRUE(done);
}

// Idle ranks wait without a limit: a server may have no requests for hours.
TEST(ThreadRanks, BetweenRunsThereIsNoLimit) {
  ThreadRanks ranks(2, milliseconds(300));
  int done = 0;
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(milliseconds(700));
    ranks.run([&](int r) {
      if (r == 0) ++done;
    });
  }
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace nanovllm
