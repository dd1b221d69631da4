#include "ops/cuda/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "ops/cuda/cuda_common.cuh"

namespace nanovllm::cuda {
namespace {

// Shape, types and alignment: what an algorithm is chosen by.
using Key = std::tuple<DType, DType, int64_t, int64_t, int64_t, int64_t, int64_t, int, uint32_t>;
struct Prepared {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;  // b and d: for the tokens of the last call
  std::vector<cublasLtMatmulAlgo_t> algorithms;  // best first, without those that were judged wrong
  bool judged = false;                           // the first gave the chain's bits
};

constexpr int kMostAlgorithms = 8, kTimedRuns = 3;

// Whether timing several algorithms is worth it, and says something: weights that the L2 cache holds would be read from there.
bool is_long(const Product& p, int64_t tokens) {
  const double weight_bytes = double(p.out_features * p.k) * double(dtype_bytes(p.dtype));
  return weight_bytes > 100e6 || 2.0 * double(tokens * p.out_features * p.k) > 8e9;
}

// A kernel for the rounded shape may not take this one: nothing has run then.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "event"); }
  float ms_since(const Event& begin) {
    check(cudaEventSynchronize(event_), "linear");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "event");
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaDataType_t cuda_type(DType dtype) {
  return dtype == DType::kBF16 ? CUDA_R_16BF : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

// The largest power of two up to 64 that divides the address: an arena's tensors have that much, whatever else is in the step.
uint32_t alignment_of(const void* data, int64_t batch_bytes) {
  const uint64_t bits = reinterpret_cast<uint64_t>(data) | uint64_t(batch_bytes) | 64;
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
  std::map<Key, Prepared> prepared;

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

  // With the library's choices for so many tokens, in its order.
  Prepared prepare(const Product& p, int64_t tokens, uint32_t a_alignment, uint32_t b_alignment,
                   uint32_t d_alignment) const {
    const int64_t segment = p.k / p.num_batches;
    Prepared result;
    create_operation(&result.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    set_operation(result.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    result.a = make_layout(p.dtype, segment, p.out_features, p.k, p.num_batches, segment);
    result.b = make_layout(p.dtype, segment, tokens, p.x_stride, p.num_batches, segment);
    result.d =
        make_layout(p.out_dtype, p.out_features, tokens, p.out_stride, p.num_batches, p.out_batch_stride);
    cublasLtMatmulPreference_t preference = nullptr;
    create_preference(&preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      set_preference(preference, attribute, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, size_t{0});
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_NONE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d_alignment);
    cublasLtMatmulHeuristicResult_t choices[kMostAlgorithms]{};
    int count = 0;
    const cublasStatus_t status =
        get_heuristic(handle, result.operation, result.a, result.b, result.d, result.d, preference,
                      is_long(p, tokens) ? kMostAlgorithms : 1, choices, &count);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i)
      if (choices[i].workspaceSize == 0) result.algorithms.push_back(choices[i].algo);
    destroy_preference(preference);
    return result;
  }

  // false: it does not take the product.
  bool run(const Product& p, const Prepared& prepared, const cublasLtMatmulAlgo_t& algorithm,
           cudaStream_t stream) const {
    const float one = 1, zero = 0;
    const cublasStatus_t status =
        matmul(handle, prepared.operation, &one, p.weight, prepared.a, p.x, prepared.b, &zero, p.out,
               prepared.d, p.out, prepared.d, &algorithm, nullptr, 0, stream);
    if (status == CUBLAS_STATUS_SUCCESS) return true;
    cudaGetLastError();  // what the library may have left is not the next op's
    if (!is_refusal(status)) fail(ErrorKind::kDevice, "linear: cuBLASLt gave status ", int(status));
    return false;
  }

  // The least of a few runs; infinity: it does not take the product.
  float least_ms(const Product& p, const Prepared& prepared, const cublasLtMatmulAlgo_t& algorithm,
                 cudaStream_t stream) const {
    float least = std::numeric_limits<float>::infinity();
    Event begin, end;
    for (int i = 0; i < kTimedRuns; ++i) {
      begin.record(stream);
      if (!run(p, prepared, algorithm, stream)) break;
      end.record(stream);
      least = std::min(least, end.ms_since(begin));
    }
    return least;
  }

  void sort_by_time(const Product& p, Prepared& prepared, cudaStream_t stream) const {
    std::vector<std::pair<float, size_t>> times;
    for (const cublasLtMatmulAlgo_t& algorithm : prepared.algorithms)
      times.emplace_back(least_ms(p, prepared, algorithm, stream), times.size());
    std::sort(times.begin(), times.end());
    std::vector<cublasLtMatmulAlgo_t> sorted;
    for (const auto& [ms, i] : times) sorted.push_back(prepared.algorithms[i]);
    prepared.algorithms = std::move(sorted);
  }

  void release(const Prepared& p) const {
    destroy_layout(p.a);
    destroy_layout(p.b);
    destroy_layout(p.d);
    destroy_operation(p.operation);
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
  for (const auto& [key, prepared] : library_->prepared) library_->release(prepared);
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

  auto found = lt.prepared.find(key);
  const bool is_new = found == lt.prepared.end();
  if (is_new)
    found = lt.prepared.emplace(key, lt.prepare(p, rounded, a_alignment, b_alignment, d_alignment)).first;
  Prepared& prepared = found->second;
  const uint64_t columns = uint64_t(p.num_tokens);
  lt.set_layout(prepared.b, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns);
  lt.set_layout(prepared.d, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns);
  lt.set_layout(prepared.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &p.out_batch_stride,
                sizeof p.out_batch_stride);
  const auto on = static_cast<cudaStream_t>(stream);
  if (is_new && prepared.algorithms.size() > 1) lt.sort_by_time(p, prepared, on);
  for (auto algorithm = prepared.algorithms.begin(); algorithm != prepared.algorithms.end();) {
    if (!lt.run(p, prepared, *algorithm, on)) {
      ++algorithm;  // for so many tokens; it stays for others
      continue;
    }
    if ((prepared.judged && algorithm == prepared.algorithms.begin()) || is_right()) {
      prepared.judged |= algorithm == prepared.algorithms.begin();
      return true;
    }
    algorithm = prepared.algorithms.erase(algorithm);
  }
  return false;
}

int64_t CublasLt::num_shapes() const { return library_ ? int64_t(library_->prepared.size()) : 0; }

}  // namespace nanovllm::cuda
