// Decode steps that are recorded once for each batch size and then replayed: one launch in place of hundreds.
//
// What is recorded is the eager code, with the same kernels in the same memory, so a replayed step has the bits of an eager one.
// Sizes are padded to few (padded_size); a size is recorded after its first step has run, so start-up does not wait for any.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "tensor/device_queue.h"

namespace nanovllm {

class CudaGraphs {
 public:
  // state: of the queue, outlives this. A queue without graphs or enabled = false: nothing is recorded.
  CudaGraphs(const DeviceQueue& queue, void* state, int max_num_seqs, bool enabled);

  bool enabled() const { return enabled_; }
  // With how many sequences a step of num_seqs is recorded: 1 to 8, then multiples of 8, then of 16, at most max_num_seqs. 0: a step
  // of so many is not recorded; it takes long enough without.
  int padded_size(int num_seqs) const;
  int num_sizes() const;  // that can be recorded

  // Replays what was recorded for this size; false: nothing was.
  bool replay(int size);
  // Records what step() does, without doing it. If that fails, for want of memory, say, it warns and nothing is recorded any more.
  void record(int size, const std::function<void()>& step);

 private:
  using Graph = std::unique_ptr<void, void (*)(void*)>;

  const DeviceQueue& queue_;
  void* state_;
  int max_num_seqs_;
  bool enabled_;
  std::map<int, Graph> graphs_;
};

}  // namespace nanovllm
