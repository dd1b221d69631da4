#include "base/thread_pool.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/error.h"

namespace nanovllm {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(200);  // longer than the host's part of a step

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Flush-to-zero and denormals-are-zero while in scope.
class DenormalsOff {
 public:
#if defined(__x86_64__)
  DenormalsOff() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~DenormalsOff() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;

  // The job in hand. Written by the caller while no worker is inside a job; published by `generation`.
  Task task;
  int64_t count = 0;
  std::atomic<int64_t> next{0};

  std::atomic<uint32_t> generation{0};  // one more for each job
  std::atomic<int> num_finished{0};     // workers that are through with the job
  std::atomic<int> num_sleeping{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;

  void work() {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed))
      task.call(task.object, i);
  }

  void wait_for_job(uint32_t seen) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    for (int spins = 0;; ++spins) {
      if (generation.load(std::memory_order_acquire) != seen) return;
      if (spins % 64 == 63 && std::chrono::steady_clock::now() > deadline) break;
      pause();
    }
    std::unique_lock lock(mutex);
    num_sleeping.fetch_add(1);
    wake.wait(lock, [&] { return generation.load() != seen; });
    num_sleeping.fetch_sub(1);
  }

  void worker_loop() {
    const DenormalsOff denormals_off;
    for (uint32_t seen = 0;; ++seen) {
      wait_for_job(seen);
      if (stopping.load(std::memory_order_acquire)) return;
      work();
      num_finished.fetch_add(1, std::memory_order_release);
    }
  }

  // Starts a job, or ends the workers if `stopping` is set.
  void announce() {
    generation.fetch_add(1);  // sequentially consistent, as is num_sleeping: one of the two sides sees the other
    if (num_sleeping.load() == 0) return;
    const std::lock_guard lock(mutex);
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  if (num_threads < 1) fail(ErrorKind::kConfig, "threads: is ", num_threads, ", want at least 1");
  // Signals are for the threads of whoever uses the pool: workers start with all of them blocked.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 1; i < num_threads; ++i) state_->workers.emplace_back([this] { state_->worker_loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_release);
  state_->announce();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const { return int(state_->workers.size()) + 1; }

void ThreadPool::run_tasks(int64_t count, Task task) {
  const DenormalsOff denormals_off;
  State& state = *state_;
  if (state.workers.empty() || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task.call(task.object, i);
    return;
  }
  state.task = task;
  state.count = count;
  state.next.store(0, std::memory_order_relaxed);
  state.num_finished.store(0, std::memory_order_relaxed);
  state.announce();
  state.work();
  for (int spins = 0; state.num_finished.load(std::memory_order_acquire) != int(state.workers.size()); ++spins) {
    // More threads than processors: let the others run.
    if (spins % 1024 == 1023)
      std::this_thread::yield();
    else
      pause();
  }
}

int usable_processors() {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0)
    count = std::min(count, std::max(1, int(std::ceil(std::stod(quota) / period))));
  return std::max(1, count);
}

}  // namespace nanovllm
