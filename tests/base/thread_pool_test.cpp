#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support.h"

namespace nanovllm {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST_P(ThreadPoolTest, RunsEachIndexOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_threads(), GetParam());
  for (int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<int> calls(size_t(count), 0);
    for (int round = 0; round < 50; ++round) pool.run(count, [&](int64_t i) { ++calls[size_t(i)]; });
    for (int n : calls) ASSERT_EQ(n, 50);
  }
}

TEST_P(ThreadPoolTest, WakesWorkersThatSleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<int> calls(64, 0);
    pool.run(64, [&](int64_t i) { ++calls[size_t(i)]; });
    for (int n : calls) ASSERT_EQ(n, 1);
  }
}

TEST_P(ThreadPoolTest, DenormalsAreZeroInBodiesOnly) {
  ThreadPool pool(GetParam());
  volatile float tiny = 1e-39f, two = 2.0f;
  std::vector<float> seen(64, -1);
  pool.run(64, [&](int64_t i) { seen[size_t(i)] = tiny * two; });
  EXPECT_EQ(seen, std::vector<float>(64, 0.0f));
  EXPECT_NE(tiny * two, 0.0f);
}

// A pool may end while its workers have yet to look at its last job.
TEST_P(ThreadPoolTest, EndsAtAnyMoment) {
  for (int round = 0; round < 4000; ++round) {
    ThreadPool pool(GetParam());
    std::atomic<int> calls = 0;
    if (round % 4 != 0) pool.run(1 + round % 3, [&](int64_t) { ++calls; });
    EXPECT_EQ(calls, round % 4 == 0 ? 0 : 1 + round % 3);
  }
}

TEST(ThreadPool, RefusesNoThreads) {
  test::expect_error(ErrorKind::kConfig, "threads: is 0, want at least 1", [] { ThreadPool pool(0); });
}

TEST(ThreadPool, ThisMachineHasAProcessor) { EXPECT_GE(usable_processors(), 1); }

}  // namespace
}  // namespace nanovllm
