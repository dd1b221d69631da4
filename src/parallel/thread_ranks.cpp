#include "parallel/thread_ranks.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace nanovllm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Wait = ThreadRanks::Wait;

constexpr auto kSpinTime =
    std::chrono::microseconds(200);             // as the pool's: longer than the host's part of a step
constexpr auto kSlice = milliseconds(500);      // of patience
constexpr int64_t kElementsPerTask = 16 << 10;  // less is not worth a thread
constexpr int64_t kElementsPerLine = 64 / sizeof(float);  // ranks write whole cache lines

// What a rank comes to a rendezvous for.
struct Call {
  std::string_view name = "";
  int64_t rows = 0, columns = 0;  // of its tensor
  float* data = nullptr;          // its tensor
  float* out = nullptr;           // gather, rank 0
  int64_t out_columns = 0;

  bool agrees(const Call& other) const {
    return name == other.name && rows == other.rows && columns == other.columns;
  }
};

std::string to_string(const Call& call) {
  if (call.rows == 0) return std::string(call.name);
  return std::string(call.name) + " of [" + std::to_string(call.rows) + ", " + std::to_string(call.columns) +
         "]";
}

using Calls = std::array<Call, ThreadRanks::kMaxSize>;  // of each rank

}  // namespace

// One rank's view of the group.
class ThreadRanks::Rank final : public Communicator {
 public:
  Rank(State& state, int rank) : state_(state), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override;
  void all_reduce_sum(Context& ctx, const Tensor& values) override;
  void gather(Context& ctx, const Tensor& out, const Tensor& part) override;

 private:
  State& state_;
  int rank_;
};

struct ThreadRanks::State {
  int size = 1;
  milliseconds patience{};
  std::vector<std::thread> threads;
  std::vector<Rank> ranks;
  Exchanges exchanges;
  Job job;  // written by rank 0 before the rendezvous that hands it over

  // The rendezvous: each rank writes its call, then arrives; the last one lets all go on. Calls of even and odd rendezvous
  // are apart: a fast rank may come to the next one while a slow one still reads this one's.
  std::array<Calls, 2> calls;
  std::atomic<int> num_arrived{0};
  std::atomic<uint32_t> generation{0};
  std::atomic<int> num_sleeping{0};
  std::mutex mutex;
  std::condition_variable wake;
  int num_workers = 0;  // threads that have not left; under the mutex

  // Why there is no more group. Written once, under the mutex, before `ended`.
  std::atomic<bool> ended{false};
  ErrorKind kind = ErrorKind::kDevice;
  std::string reason;

  void end(ErrorKind why, const std::string& what) {
    const std::lock_guard lock(mutex);
    if (ended.load()) return;
    kind = why;
    reason = what;
    ended.store(true);
    wake.notify_all();
  }

  [[noreturn]] void throw_reason() {
    const std::lock_guard lock(mutex);
    throw Error(kind, reason);
  }

  std::string name_of(int rank) const {
    return "rank " + std::to_string(rank) + " of " + std::to_string(size);
  }

  // Returns when all ranks have come, with their calls: they stay as they are until this rank comes again.
  const Calls& meet(int rank, const Call& call, Wait wait) {
    if (ended.load()) throw_reason();
    const uint32_t before = generation.load(std::memory_order_relaxed);  // stays until this rank has arrived
    Calls& all = calls[before % 2];
    all[size_t(rank)] = call;
    if (num_arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      num_arrived.store(0, std::memory_order_relaxed);
      // Sequentially consistent, as is num_sleeping: who goes to sleep sees the new generation, or is seen here.
      generation.store(before + 1);
      if (num_sleeping.load() > 0) {
        const std::lock_guard lock(mutex);
        wake.notify_all();
      }
    } else {
      wait_for(rank, call, before, wait);
    }
    for (int other = 0; other < size; ++other)
      if (!all[size_t(other)].agrees(call)) refuse(rank, other, all);
    return all;
  }

  void wait_for(int rank, const Call& call, uint32_t before, Wait wait) {
    const auto over = [&] { return generation.load() != before || ended.load(); };
    const auto deadline = steady_clock::now() + kSpinTime;
    while (!over() && steady_clock::now() < deadline) std::this_thread::yield();
    if (!over()) {
      std::unique_lock lock(mutex);
      num_sleeping.fetch_add(1);
      const bool came = sleep(lock, over, wait);
      num_sleeping.fetch_sub(1);
      lock.unlock();
      if (!came)
        end(ErrorKind::kDevice, name_of(rank) + ": waited " + std::to_string(patience.count()) +
                                    " ms for its fellows at " + to_string(call));
    }
    if (generation.load() == before) throw_reason();
  }

  // False: patience is over. Waited in slices: a pause of the whole process costs one of them.
  template <class Condition>
  bool sleep(std::unique_lock<std::mutex>& lock, const Condition& over, Wait wait) {
    if (wait == Wait::kForever) {
      wake.wait(lock, over);
      return true;
    }
    for (milliseconds left = patience; !over(); left -= kSlice) {
      if (left <= milliseconds(0)) return false;
      wake.wait_for(lock, std::min(left, kSlice), over);
    }
    return true;
  }

  // After the end: until nobody is in a body any more.
  void wait_for_workers() {
    std::unique_lock lock(mutex);
    if (sleep(
            lock, [&] { return num_workers == 0; }, Wait::kPatiently))
      return;
    std::fprintf(stderr, "nanovllm: error: %s; a rank does not return, so the program ends\n",
                 reason.c_str());
    std::fflush(nullptr);
    std::_Exit(1);
  }

  [[noreturn]] void refuse(int rank, int other, const Calls& all) {
    const int first = std::min(rank, other), second = std::max(rank, other);
    end(ErrorKind::kDevice, name_of(first) + ": is at " + to_string(all[size_t(first)]) + ", and rank " +
                                std::to_string(second) + " at " + to_string(all[size_t(second)]) +
                                ", want the same exchange on all");
    throw_reason();
  }

  // A rank's part of a run. What the body throws ends the group, if that has not ended before.
  void work(int rank) {
    try {
      job.call(job.object, rank);
    } catch (const Error& error) {
      end(error.kind(), name_of(rank) + ": " + error.what());
      throw_reason();
    } catch (const std::exception& error) {
      end(ErrorKind::kDevice, name_of(rank) + ": " + error.what());
      throw_reason();
    }
    meet(rank, {.name = "the end of the step"}, job.wait);
  }
};

int ThreadRanks::Rank::size() const { return state_.size; }

void ThreadRanks::Rank::all_reduce_sum(Context& ctx, const Tensor& values) {
  if (state_.size == 1) return;
  ASSERT(values.dtype == DType::kF32 && values.rank == 2 && values.contiguous());
  const Call call{.name = "all_reduce_sum",
                  .rows = values.shape[0],
                  .columns = values.shape[1],
                  .data = values.ptr<float>()};
  const Calls& calls = state_.meet(rank_, call, Wait::kPatiently);
  if (rank_ == 0) ++state_.exchanges.all_reduces;
  std::array<float*, kMaxSize> data;
  for (size_t r = 0; r < data.size(); ++r) data[r] = calls[r].data;
  const int64_t total = values.num_elements();
  const int64_t lines = (total + kElementsPerLine - 1) / kElementsPerLine;
  const int64_t begin = std::min(total, lines * rank_ / state_.size * kElementsPerLine);
  const int64_t end = std::min(total, lines * (rank_ + 1) / state_.size * kElementsPerLine);
  // On the pool, for its floating-point mode: the sums are those of add_rms_norm.
  ctx.threads->run((end - begin + kElementsPerTask - 1) / kElementsPerTask, [&](int64_t task) {
    const int64_t first = begin + task * kElementsPerTask, last = std::min(end, first + kElementsPerTask);
    if (state_.size == 2)
      for (int64_t i = first; i < last; ++i) data[0][i] = data[1][i] = data[0][i] + data[1][i];
    else
      for (int64_t i = first; i < last; ++i)
        data[0][i] = data[1][i] = data[2][i] = data[3][i] =
            (data[0][i] + data[1][i]) + (data[2][i] + data[3][i]);
  });
  state_.meet(rank_, call, Wait::kPatiently);
}

void ThreadRanks::Rank::gather(Context&, const Tensor& out, const Tensor& part) {
  if (state_.size == 1) {
    ASSERT(out.data == part.data);
    return;
  }
  ASSERT(part.dtype == DType::kF32 && part.rank == 2 && part.contiguous());
  Call call{.name = "gather", .rows = part.shape[0], .columns = part.shape[1], .data = part.ptr<float>()};
  if (rank_ == 0) {
    ASSERT(out.dtype == DType::kF32 && out.contiguous() && out.shape[0] == call.rows &&
           out.shape[1] <= state_.size * call.columns);
    call.out = out.ptr<float>();
    call.out_columns = out.shape[1];
  }
  const Call& root = state_.meet(rank_, call, Wait::kPatiently)[0];
  if (rank_ == 0) ++state_.exchanges.gathers;
  const int64_t first = rank_ * call.columns, width = root.out_columns;
  const int64_t count = std::clamp<int64_t>(width - first, 0, call.columns);
  if (count > 0)
    for (int64_t row = 0; row < call.rows; ++row)
      std::memcpy(root.out + row * width + first, call.data + row * call.columns,
                  size_t(count) * sizeof(float));
  state_.meet(rank_, call, Wait::kPatiently);
}

void ThreadRanks::check_size(int size) {
  if (size != 1 && size != 2 && size != kMaxSize)
    fail(ErrorKind::kConfig, "tensor_parallel_size: is ", size, ", want 1, 2 or 4");
}

ThreadRanks::ThreadRanks(int size, milliseconds patience) : state_(std::make_unique<State>()) {
  check_size(size);
  state_->size = size;
  state_->patience = patience;
  for (int rank = 0; rank < size; ++rank) state_->ranks.emplace_back(*state_, rank);
  // Signals are for the threads of whoever uses the ranks: these start with all of them blocked.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    for (int rank = 1; rank < size; ++rank) {
      state_->threads.emplace_back([this, rank] { worker_loop(rank); });
      const std::lock_guard lock(state_->mutex);
      ++state_->num_workers;
    }
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) return;
  state_->end(ErrorKind::kDevice, "threads: the system gives no more, want fewer ranks");
  for (std::thread& thread : state_->threads) thread.join();
  state_->throw_reason();
}

ThreadRanks::~ThreadRanks() {
  state_->end(ErrorKind::kDevice, "the group is over");
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadRanks::size() const { return state_->size; }
Communicator& ThreadRanks::comm(int rank) { return state_->ranks.at(size_t(rank)); }
const ThreadRanks::Exchanges& ThreadRanks::exchanges() const { return state_->exchanges; }

void ThreadRanks::worker_loop(int rank) {
  try {
    for (;;) {
      state_->meet(rank, {.name = "the start of a step"}, Wait::kForever);
      state_->work(rank);
    }
  } catch (const Error&) {
    // The group has ended: run() says why.
  }
  const std::lock_guard lock(state_->mutex);
  --state_->num_workers;
  state_->wake.notify_all();
}

void ThreadRanks::run_job(Job job) {
  ++state_->exchanges.runs;
  if (state_->size == 1) return job.call(job.object, 0);
  if (state_->ended.load()) state_->throw_reason();
  state_->job = job;
  try {
    state_->meet(0, {.name = "the start of a step"}, job.wait);
    state_->work(0);
  } catch (...) {
    state_->wait_for_workers();  // nobody uses the body any more
    throw;
  }
}

}  // namespace nanovllm
