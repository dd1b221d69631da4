// Everything an op needs besides its arguments. One per rank; passed explicitly, never global.
#pragma once

#include <functional>
#include <string_view>

#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace nanovllm {

class Communicator;
class ThreadPool;
struct OpTable;

// Sees named intermediate results of a forward in their order ("residual", "self_attn.qkv_proj"); layer -1: outside the
// layers. The tensors may be strided, and live no longer than the call.
using TraceHook = std::function<void(std::string_view name, int layer, const Tensor& tensor)>;

struct Context {
  const OpTable& ops;
  Arena& arena;                      // this step's activations
  Communicator& comm;                // this rank and its fellows
  ThreadPool* threads = nullptr;     // the CPU backend's workers
  void* state = nullptr;             // the backend's own, of this rank: OpTable::make_state
  const TraceHook* trace = nullptr;  // costs nothing when null

  void show(std::string_view name, int layer, const Tensor& tensor) const {
    if (trace) (*trace)(name, layer, tensor);
  }
};

}  // namespace nanovllm
