// A fork-join pool for work that takes microseconds: one step of a small model forks about a hundred times.
//
// run(count, body) calls body(0) ... body(count - 1), each once, on the caller and the workers, and returns
// when all are done. Tasks are handed out one by one, so who runs which is left to chance: a body must write
// only what its index owns, and its result must not depend on the thread (docs/design.md, decision 8). Idle workers
// spin for a while, then sleep. Workers and caller flush denormals to zero while they run bodies: a denormal
// costs an FMA up to 70 times its time.
//
// One caller at a time; not reentrant. Nothing is allocated in run().
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace nanovllm {

class ThreadPool {
 public:
  // num_threads counts the caller: 1 makes no worker.
  // throws Error(kConfig): num_threads < 1; Error(kDevice): the system gives no more threads
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  template <class Body>
  void run(int64_t count, Body&& body) {
    run_tasks(count, {&body, [](const void* object, int64_t index) {
                        (*static_cast<std::remove_reference_t<Body>*>(const_cast<void*>(object)))(index);
                      }});
  }

 private:
  void stop_workers();

  // A borrowed callable: no allocation, valid during run().
  struct Task {
    const void* object = nullptr;
    void (*call)(const void* object, int64_t index) = nullptr;
  };
  struct State;

  void run_tasks(int64_t count, Task task);

  std::unique_ptr<State> state_;
};

// Processors this process may use: the affinity mask, cut by a cgroup's quota.
int usable_processors();

}  // namespace nanovllm
