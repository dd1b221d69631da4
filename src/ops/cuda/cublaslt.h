// cuBLASLt, opened at run time: the program starts without it.
//
// Products run without workspace and without reductions, so that K is not split and every result is one chain of m16n8k16
// (docs/design.md, decision 8). The algorithm is chosen when a shape is first seen, for the power of two that num_tokens rounds up
// to: the library's first choice, or of long products the fastest of its choices. As all give the same bits, it does not matter
// which. Each is judged when it is first used, by whoever calls; one that gives other bits is never used again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/dtype.h"

namespace nanovllm::cuda {

// out[b, t, n] = Σ_k x[t, b k_b + k] weight[n, b k_b + k], for num_batches segments of k_b = K / num_batches.
struct Product {
  const void* x;       // [num_tokens, K] T, rows x_stride apart
  const void* weight;  // [out_features, K] T
  void* out;           // [num_batches, num_tokens, out_features] out_dtype, rows out_stride apart
  DType dtype, out_dtype;
  int64_t num_tokens, out_features, k;
  int64_t x_stride, out_stride, out_batch_stride;
  int num_batches;
};

class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Why the library does not serve; empty: it does.
  const std::string& problem() const { return problem_; }

  // false: the library is not there, or has no kernel for this shape and alignment, or none that was judged right. stream:
  // cudaStream_t, and no graph is recorded when a shape is first seen. is_right: called behind the first product of an algorithm.
  bool multiply(const Product& product, void* stream, const std::function<bool()>& is_right);

  int64_t num_shapes() const;  // that were seen

 private:
  struct Library;
  std::unique_ptr<Library> library_;  // null: see problem()
  std::string problem_;
};

}  // namespace nanovllm::cuda
