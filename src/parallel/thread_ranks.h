// Ranks that are threads of one process: rank 0 is whoever calls run(), the others have a thread each. In an exchange they
// read and write each other's tensors between two rendezvous, so what is given to one lives until run() returns.
//
// A rank that fails, that asks for another exchange than its fellows, or that does not come for `patience`, ends the group:
// whoever waits, and every later run, gets an Error that says which rank and why. A thread cannot be taken away: where one
// does not return for as long again, the program ends with a message, for it would hang.
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

  // What is waited for: a fellow inside a step, who comes within seconds or never; or work of any length.
  enum class Wait { kPatiently, kForever };

  // throws Error(kConfig): size is not 1, 2 or 4
  static void check_size(int size);

  // patience: of time that this process runs, so that one which is stopped and continued loses nothing.
  // throws Error: as check_size; Error(kDevice): the system gives no more threads
  explicit ThreadRanks(int size, std::chrono::milliseconds patience = std::chrono::minutes(5));
  ~ThreadRanks();  // waits for the ranks' threads
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  int size() const;
  Communicator& comm(int rank);
  const Exchanges& exchanges() const;

  // body(rank) on every rank at once, each always on the same thread; returns when all are done. Nothing is allocated. What
  // a rank throws ends the group, unless there is only one. wait: for a rank that is not done when others are.
  // throws Error: what a rank has thrown, with its number; the group has ended before
  template <class Body>
  void run(Body&& body, Wait wait = Wait::kPatiently) {
    run_job({&body,
             [](const void* object, int rank) {
               (*static_cast<std::remove_reference_t<Body>*>(const_cast<void*>(object)))(rank);
             },
             wait});
  }

 private:
  // A borrowed callable: valid during run().
  struct Job {
    const void* object = nullptr;
    void (*call)(const void* object, int rank) = nullptr;
    Wait wait = Wait::kPatiently;
  };
  class Rank;
  struct State;

  void run_job(Job job);
  void worker_loop(int rank);

  std::unique_ptr<State> state_;
};

}  // namespace nanovllm
