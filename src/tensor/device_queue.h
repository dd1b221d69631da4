// The order in which a rank's work runs on its device: copies of a step's inputs and results, its ops, recorded steps. What is begun
// later runs later; the caller goes on meanwhile. On the host everything is done on return.
//
// state: Context::state, which has the queue.
#pragma once

#include <cstddef>

namespace nanovllm {

struct DeviceQueue {
  // staging: memory of Device::staging(). It may be used anew, or read, when a mark behind the copy is reached.
  void (*upload)(void* state, void* device, const void* staging, size_t bytes);
  void (*download)(void* state, void* staging, const void* device, size_t bytes);

  // throw Error(kDevice): what was begun before failed
  void* (*make_mark)();
  void (*set_mark)(void* state, void* mark);
  void (*wait_for_mark)(void* mark);  // returns at once if it was never set
  void (*release_mark)(void* mark);
  // Of marks that were reached. Null: the queue keeps no time, as its work is done on return.
  double (*seconds_between)(void* earlier, void* later) = nullptr;

  // What ops do between begin_graph and end_graph is recorded, not done; launch_graph does it, as often as it is called. After
  // begin_graph comes end_graph or cancel_graph. All null: the backend records nothing. throw Error(kDevice)
  void (*begin_graph)(void* state) = nullptr;
  void* (*end_graph)(void* state) = nullptr;
  void (*cancel_graph)(void* state) = nullptr;
  void (*launch_graph)(void* state, void* graph) = nullptr;
  void (*release_graph)(void* graph) = nullptr;
};

const DeviceQueue& host_queue();

// Owns a mark.
class DeviceMark {
 public:
  explicit DeviceMark(const DeviceQueue& queue) : queue_(&queue), mark_(queue.make_mark()) {}
  ~DeviceMark() { queue_->release_mark(mark_); }
  DeviceMark(const DeviceMark&) = delete;
  DeviceMark& operator=(const DeviceMark&) = delete;

  void set(void* state) { queue_->set_mark(state, mark_); }
  void wait() { queue_->wait_for_mark(mark_); }
  double seconds_since(const DeviceMark& earlier) const {
    return queue_->seconds_between(earlier.mark_, mark_);
  }

 private:
  const DeviceQueue* queue_;
  void* mark_;
};

}  // namespace nanovllm
