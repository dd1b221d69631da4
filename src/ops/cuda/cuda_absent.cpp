// In a build without CUDA: the backend that is never there.
#include "base/error.h"
#include "ops/cuda/cuda_ops.h"

namespace nanovllm {

std::string cuda_unavailable() { return "this program was built without CUDA"; }

bool cuda_has_head_dim(DType, int) { return false; }

std::string cuda_device_name() { return ""; }

const Device& cuda_device() { fail(ErrorKind::kDevice, "cuda: ", cuda_unavailable()); }

const Device& cuda_host_device() { fail(ErrorKind::kDevice, "cuda: ", cuda_unavailable()); }

const OpTable& cuda_ops(DType) {
  fail(ErrorKind::kDevice, "cuda: ", cuda_unavailable(), ": want --device cpu");
}

}  // namespace nanovllm
