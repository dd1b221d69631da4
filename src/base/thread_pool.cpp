#include "base/thread_pool.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/assert.h"
#include "base/cgroup.h"
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

// A job is over when its tasks are done, not when every worker has looked at it: a worker that sleeps or was
// put aside by the system costs its share of the work, never a wait. So a late worker may still hold the job
// before; the ticket tells.
struct ThreadPool::State {
  std::vector<std::thread> workers;

  // The job in hand: its number in the upper half, the tasks that nobody has taken yet in the lower half. The
  // other fields are written only while that is none, so whoever takes a task reads what belongs to it.
  std::atomic<uint64_t> ticket{0};
  std::atomic<const void*> object{nullptr};
  std::atomic<void (*)(const void*, int64_t)> call{nullptr};
  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> num_done{0};

  std::atomic<int> num_sleeping{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;

  uint32_t job() const { return uint32_t(ticket.load(std::memory_order_acquire) >> 32); }

  // Does tasks of job `number` until none is left.
  void work(uint32_t number) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while (uint32_t(seen >> 32) == number && uint32_t(seen) > 0) {
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      const uint32_t index = count.load(std::memory_order_relaxed) - uint32_t(seen);
      call.load(std::memory_order_relaxed)(object.load(std::memory_order_relaxed), index);
      num_done.fetch_add(1, std::memory_order_release);
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  // Returns once there is a job after `seen`, or the pool ends.
  void wait_for_job(uint32_t seen) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    for (int spins = 0;; ++spins) {
      if (job() != seen) return;
      if (spins % 64 == 63 && std::chrono::steady_clock::now() > deadline) break;
      pause();
    }
    std::unique_lock lock(mutex);
    num_sleeping.fetch_add(1);
    wake.wait(lock, [&] { return uint32_t(ticket.load() >> 32) != seen; });
    num_sleeping.fetch_sub(1);
  }

  void worker_loop() {
    const DenormalsOff denormals_off;
    for (uint32_t seen = 0;;) {
      wait_for_job(seen);
      seen = job();
      // After the job's number: whoever has read the last one sees that it is the last, and does not wait for another.
      if (stopping.load(std::memory_order_acquire)) return;
      work(seen);
    }
  }

  // Starts the next job, or ends the workers if `stopping` is set.
  void announce(uint32_t num_tasks) {
    // Sequentially consistent, as is num_sleeping: a worker that goes to sleep sees the new job, or is seen
    // here.
    ticket.store(uint64_t{job() + 1} << 32 | num_tasks);
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
  bool started = true;
  try {
    for (int i = 1; i < num_threads; ++i) state_->workers.emplace_back([this] { state_->worker_loop(); });
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) return;
  const int num_started = this->num_threads();
  stop_workers();
  fail(ErrorKind::kDevice, "threads: the system gives ", num_started, " of ", num_threads,
       ", want fewer threads");
}

ThreadPool::~ThreadPool() { stop_workers(); }

void ThreadPool::stop_workers() {
  state_->stopping.store(true, std::memory_order_release);
  state_->announce(0);
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
  ASSERT(count <= UINT32_MAX);
  state.object.store(task.object, std::memory_order_relaxed);
  state.call.store(task.call, std::memory_order_relaxed);
  state.count.store(uint32_t(count), std::memory_order_relaxed);
  state.num_done.store(0, std::memory_order_relaxed);
  state.announce(uint32_t(count));
  state.work(state.job());
  for (int spins = 0; state.num_done.load(std::memory_order_acquire) != uint32_t(count); ++spins) {
    // More threads than processors: let the one with the last task run.
    if (spins % 1024 == 1023)
      std::this_thread::yield();
    else
      pause();
  }
}

int usable_processors() {
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const std::optional<double> quota = cgroup_processors())
    count = std::min(count, int(std::ceil(*quota)));
  return std::max(1, count);
}

}  // namespace nanovllm
