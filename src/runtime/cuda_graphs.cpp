#include "runtime/cuda_graphs.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace nanovllm {
namespace {

constexpr int kMostSequences = 512;  // so that there are few

}  // namespace

CudaGraphs::CudaGraphs(const DeviceQueue& queue, void* state, int max_num_seqs, bool enabled)
    : queue_(queue),
      state_(state),
      max_num_seqs_(max_num_seqs),
      enabled_(enabled && queue.begin_graph != nullptr) {}

int CudaGraphs::padded_size(int num_seqs) const {
  if (num_seqs <= 8) return num_seqs;
  if (num_seqs > kMostSequences) return 0;
  const int multiple = num_seqs <= 256 ? 8 : 16;
  return std::min((num_seqs + multiple - 1) / multiple * multiple, max_num_seqs_);
}

int CudaGraphs::num_sizes() const {
  int count = 0, last = 0;
  for (int num_seqs = 1; enabled_ && num_seqs <= std::min(max_num_seqs_, kMostSequences); ++num_seqs)
    if (const int size = padded_size(num_seqs); size != last) ++count, last = size;
  return count;
}

bool CudaGraphs::replay(int size) {
  const auto found = graphs_.find(size);
  if (found == graphs_.end()) return false;
  queue_.launch_graph(state_, found->second.get());
  return true;
}

void CudaGraphs::record(int size, const std::function<void()>& step) {
  try {
    queue_.begin_graph(state_);
    try {
      step();
    } catch (...) {
      queue_.cancel_graph(state_);
      throw;
    }
    graphs_.insert_or_assign(size, Graph(queue_.end_graph(state_), queue_.release_graph));
  } catch (const std::exception& error) {
    enabled_ = false;
    graphs_.clear();
    warn(std::string("steps go on without CUDA graphs, slower: ") + error.what());
  }
}

}  // namespace nanovllm
