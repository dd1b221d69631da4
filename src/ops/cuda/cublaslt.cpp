#include "ops/cuda/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace nanovllm::cuda {
namespace {

// Shape, types and alignment: what an algorithm is chosen by.
using Key = std::tuple<DType, DType, int64_t, int64_t, int64_t, int64_t, int64_t, int, uint32_t>;
struct Algorithm {
  cublasLtMatmulAlgo_t value;
  bool judged = false;
};

cudaDataType_t cuda_type(DType dtype) {
  return dtype == DType::kBF16 ? CUDA_R_16BF : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

// The largest power of two up to 256 that divides the address.
uint32_t alignment_of(const void* data, int64_t batch_bytes) {
  const uint64_t bits = reinterpret_cast<uint64_t>(data) | uint64_t(batch_bytes) | 256;
  return uint32_t(bits & (~bits + 1));
}

}  // namespace

struct CublasLt::Library {
  void* file = nullptr;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  std::map<Key, std::optional<Algorithm>> algorithms;  // nullopt: the library has none

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(file, name));
  }

  cublasLtMatrixLayout_t make_layout(DType dtype, int64_t rows, int64_t columns, int64_t stride, int batches,
                                     int64_t batch_stride) const {
    cublasLtMatrixLayout_t layout = nullptr;
    create_layout(&layout, cuda_type(dtype), uint64_t(rows), uint64_t(columns), stride);
    const int32_t count = batches;
    set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride, sizeof batch_stride);
    return layout;
  }
};

CublasLt::CublasLt() {
  void* file = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"})
    if (!file) file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!file) {
    problem_ = "libcublasLt.so.13 is not found";
    return;
  }
  library_ = std::make_unique<Library>();
  Library& lt = *library_;
  lt.file = file;
  lt.find(lt.create, "cublasLtCreate");
  lt.find(lt.destroy, "cublasLtDestroy");
  lt.find(lt.matmul, "cublasLtMatmul");
  lt.find(lt.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  lt.find(lt.create_operation, "cublasLtMatmulDescCreate");
  lt.find(lt.destroy_operation, "cublasLtMatmulDescDestroy");
  lt.find(lt.set_operation, "cublasLtMatmulDescSetAttribute");
  lt.find(lt.create_layout, "cublasLtMatrixLayoutCreate");
  lt.find(lt.destroy_layout, "cublasLtMatrixLayoutDestroy");
  lt.find(lt.set_layout, "cublasLtMatrixLayoutSetAttribute");
  lt.find(lt.create_preference, "cublasLtMatmulPreferenceCreate");
  lt.find(lt.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  lt.find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  const bool complete = lt.create && lt.destroy && lt.matmul && lt.get_heuristic && lt.create_operation &&
                        lt.destroy_operation && lt.set_operation && lt.create_layout && lt.destroy_layout &&
                        lt.set_layout && lt.create_preference && lt.destroy_preference && lt.set_preference;
  const cublasStatus_t status = complete ? lt.create(&lt.handle) : CUBLAS_STATUS_NOT_INITIALIZED;
  if (status == CUBLAS_STATUS_SUCCESS) return;
  problem_ = "libcublasLt cannot start, status " + std::to_string(int(status));
  dlclose(file);
  library_.reset();
}

CublasLt::~CublasLt() {
  if (!library_) return;
  library_->destroy(library_->handle);
  dlclose(library_->file);
}

// Row-major out = x weightᵀ is, column by column, outᵀ = weight xᵀ: the library's A is the weight, transposed.
bool CublasLt::multiply(const Product& p, void* stream, const std::function<bool()>& is_right) {
  if (!library_) return false;
  Library& lt = *library_;
  const int64_t segment = p.k / p.num_batches;
  const int64_t rounded = int64_t(std::bit_ceil(uint64_t(p.num_tokens)));
  const uint32_t a_alignment = alignment_of(p.weight, segment * int64_t(dtype_bytes(p.dtype))),
                 b_alignment = alignment_of(p.x, segment * int64_t(dtype_bytes(p.dtype))),
                 d_alignment = alignment_of(p.out, p.out_batch_stride * int64_t(dtype_bytes(p.out_dtype)));
  const Key key{p.dtype,        p.out_dtype,   rounded,
                p.out_features, p.k,           p.x_stride,
                p.out_stride,   p.num_batches, a_alignment << 20 | b_alignment << 10 | d_alignment};

  cublasLtMatmulDesc_t operation = nullptr;
  lt.create_operation(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  lt.set_operation(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  const cublasLtMatrixLayout_t a =
      lt.make_layout(p.dtype, segment, p.out_features, p.k, p.num_batches, segment);
  const auto make_b = [&](int64_t tokens) {
    return lt.make_layout(p.dtype, segment, tokens, p.x_stride, p.num_batches, segment);
  };
  const auto make_d = [&](int64_t tokens) {
    return lt.make_layout(p.out_dtype, p.out_features, tokens, p.out_stride, p.num_batches,
                          p.out_batch_stride);
  };

  auto found = lt.algorithms.find(key);
  if (found == lt.algorithms.end()) {
    cublasLtMatmulPreference_t preference = nullptr;
    lt.create_preference(&preference);
    const size_t no_workspace = 0;
    lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &no_workspace,
                      sizeof no_workspace);
    const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    lt.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction,
                      sizeof no_reduction);
    lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a_alignment,
                      sizeof a_alignment);
    lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b_alignment,
                      sizeof b_alignment);
    lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d_alignment,
                      sizeof d_alignment);
    lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d_alignment,
                      sizeof d_alignment);
    const cublasLtMatrixLayout_t b = make_b(rounded), d = make_d(rounded);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const bool ok = lt.get_heuristic(lt.handle, operation, a, b, d, d, preference, 1, &result, &count) ==
                        CUBLAS_STATUS_SUCCESS &&
                    count == 1 && result.workspaceSize == 0;
    lt.destroy_layout(b);
    lt.destroy_layout(d);
    lt.destroy_preference(preference);
    found = lt.algorithms.emplace(key, ok ? std::optional(Algorithm{result.algo}) : std::nullopt).first;
  }
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (found->second) {
    const cublasLtMatrixLayout_t b = make_b(p.num_tokens), d = make_d(p.num_tokens);
    const float one = 1, zero = 0;
    status = lt.matmul(lt.handle, operation, &one, p.weight, a, p.x, b, &zero, p.out, d, p.out, d,
                       &found->second->value, nullptr, 0, static_cast<cudaStream_t>(stream));
    lt.destroy_layout(b);
    lt.destroy_layout(d);
  }
  lt.destroy_layout(a);
  lt.destroy_operation(operation);
  if (status != CUBLAS_STATUS_SUCCESS) {
    cudaGetLastError();  // what the library may have left is not the next op's
    // A kernel for the rounded shape may not take this one: nothing has run then.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
    fail(ErrorKind::kDevice, "linear: cuBLASLt gave status ", int(status));
  }
  if (!found->second->judged) {
    found->second->judged = true;
    if (!is_right()) {
      found->second.reset();
      return false;
    }
  }
  return true;
}

}  // namespace nanovllm::cuda
