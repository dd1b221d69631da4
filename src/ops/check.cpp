#include "ops/check.h"

#include <string>

#include "base/error.h"

namespace nanovllm {

void check_shape(std::string_view op, std::string_view argument, const Tensor& tensor,
                 std::initializer_list<Dim*> dims) {
  bool good = tensor.defined() && tensor.rank == int(dims.size());
  size_t i = 0;
  for (Dim* dim : dims) {
    if (!good) break;
    if (dim->size < 0) dim->size = tensor.shape[i];
    good = tensor.shape[i] == dim->size;
    ++i;
  }
  if (good && (tensor.rank == 0 || tensor.stride[size_t(tensor.rank) - 1] == 1)) return;

  std::string want;
  for (const Dim* dim : dims) {
    if (!want.empty()) want += ", ";
    want += dim->name;
    if (dim->size >= 0) want.append("=").append(std::to_string(dim->size));
  }
  fail(ErrorKind::kConfig, op, ": ", argument, " is ", tensor.defined() ? to_string(tensor) : "missing",
       good ? " with a strided last dimension" : "", ", want [", want, "]");
}

void check_dtype(std::string_view op, std::string_view argument, const Tensor& tensor, DType want) {
  if (tensor.dtype != want)
    fail(ErrorKind::kConfig, op, ": ", argument, " is ", to_string(tensor), ", want ", dtype_name(want));
}

}  // namespace nanovllm
