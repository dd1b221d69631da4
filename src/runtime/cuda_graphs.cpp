#include "runtime/cuda_graphs.h"

#include <algorithm>

namespace nanovllm {

CudaGraphs::CudaGraphs(const OpTable& ops, void* state, int max_num_seqs, bool enabled)
    : ops_(ops),
      state_(state),
      max_num_seqs_(max_num_seqs),
      enabled_(enabled && ops.begin_graph != nullptr) {}

int CudaGraphs::padded_size(int num_seqs) const {
  if (num_seqs <= 8) return num_seqs;
  const int multiple = num_seqs <= 256 ? 8 : 16;
  return std::min((num_seqs + multiple - 1) / multiple * multiple, max_num_seqs_);
}

bool CudaGraphs::replay(int size) {
  const auto found = graphs_.find(size);
  if (found == graphs_.end()) return false;
  ops_.launch_graph(state_, found->second.get());
  return true;
}

void CudaGraphs::record(int size, const std::function<void()>& step) {
  ops_.begin_graph(state_);
  try {
    step();
  } catch (...) {
    ops_.cancel_graph(state_);
    throw;
  }
  graphs_.insert_or_assign(size, Graph(ops_.end_graph(state_), ops_.release_graph));
}

}  // namespace nanovllm
