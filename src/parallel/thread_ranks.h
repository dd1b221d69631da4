// Ranks that are threads of one process: rank 0 is whoever calls run(), the others have a thread each. Exchanges are reads
// of each other's tensors between two rendezvous.
//
// A rank that fails, that asks for another exchange than its fellows, or that does not come for `patience`, ends the group:
// whoever waits, and every later run, gets an Error that says which rank and why. Nobody waits for a rank that will
// not come.
#pragma once

#include <chrono>
#include <memory>
#include <type_traits>

#include "parallel/communicator.h"

namespace nanovllm {

class ThreadRanks {
 public:
  // What rank 0 has taken part in.
  struct Exchanges {
    int64_t runs = 0;  // each hands the ranks their work, and its results back
    int64_t all_reduces = 0;
    int64_t gathers = 0;
  };

  static constexpr int kMaxSize = 4;  // more would add up in another order (docs/design.md, decision 8)

  // throws Error(kConfig): size is not 1, 2 or 4; Error(kDevice): the system gives no more threads
  explicit ThreadRanks(int size, std::chrono::milliseconds patience = std::chrono::minutes(5));
  ~ThreadRanks();  // waits for the ranks' threads
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  int size() const;
  Communicator& comm(int rank);
  const Exchanges& exchanges() const;

  // body(rank) on every rank at once, each always on the same thread; returns when all are done. Nothing is allocated. What
  // a rank throws ends the group, unless there is only one.
  // throws Error: what a rank has thrown, with its number; the group has ended before
  template <class Body>
  void run(Body&& body) {
    run_job({&body, [](const void* object, int rank) {
               (*static_cast<std::remove_reference_t<Body>*>(const_cast<void*>(object)))(rank);
             }});
  }

 private:
  // A borrowed callable: valid during run().
  struct Job {
    const void* object = nullptr;
    void (*call)(const void* object, int rank) = nullptr;
  };
  class Rank;
  struct State;

  void run_job(Job job);
  void worker_loop(int rank);
  void join();

  std::unique_ptr<State> state_;
};

}  // namespace nanovllm
