// GPU 0: its memory, what is known of it, and what a rank keeps on it.
#include <cuda_runtime.h>

#include <cstring>

#include "ops/cuda/cuda_common.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/linear_few.cuh"

namespace nanovllm {
namespace cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // it would be taken for the next op's
  fail(ErrorKind::kDevice, what, ": CUDA says ", cudaGetErrorName(status), " (", cudaGetErrorString(status),
       ")");
}

void wait_for_device(const char* what) {
  const std::lock_guard lock(recording_mutex());
  check(cudaDeviceSynchronize(), what);
}

int count_multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "device");
  return count;
}

namespace {
__global__ void probe_kernel() {}
}  // namespace

State::State() {
  if (!lt.problem().empty())
    warn("cuda: " + lt.problem() + ", so products run in plain kernels, many times slower");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  num_multiprocessors = count_multiprocessors();
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, probe_kernel), "device");
  starts_early = attributes.ptxVersion >= 90;  // from PTX of an older one the kernels for Hopper are empty
  has_few_products = starts_early && prepare_linear_few();
  if (starts_early && !has_few_products)
    warn(
        "cuda: products of few tokens run in the library's kernels, slower: this GPU has too little shared "
        "memory, or the driver makes no tensor maps");
}
State::~State() { cudaStreamDestroy(stream); }

namespace {

void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it stays the last error otherwise
    return nullptr;
  }
  check(status, "memory");
  check(cudaMemset(data, 0, bytes), "memory");
  check(cudaStreamSynchronize(nullptr), "memory");
  return data;
}

}  // namespace
}  // namespace cuda

const Device& cuda_device() {
  static constexpr Device device{
      .name = "cuda",
      .allocate = cuda::allocate,
      .release = [](void* data, size_t) { cudaFree(data); },
      .upload =
          [](void* to, const void* from, size_t bytes) {
            cuda::check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload");
            cuda::check(cudaStreamSynchronize(nullptr),
                        "upload");  // the copy may go on, from the driver's memory
          },
      .download =
          [](void* to, const void* from, size_t bytes) {
            cuda::wait_for_device("download");
            cuda::check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "download");
          },
      .staging = cuda_host_device,
      .synchronize = [] { cuda::wait_for_device("step"); },
      .memory =
          [] {
            Memory memory;
            cuda::check(cudaMemGetInfo(&memory.available, &memory.total), "memory");
            return memory;
          },
  };
  return device;
}

const Device& cuda_host_device() {
  static constexpr Device device{
      .name = "pinned host",
      .allocate = [](size_t bytes) -> void* {
        void* data = nullptr;
        if (cudaMallocHost(&data, bytes) != cudaSuccess) {
          cudaGetLastError();
          return nullptr;
        }
        std::memset(data, 0, bytes);
        return data;
      },
      .release = [](void* data, size_t) { cudaFreeHost(data); },
      .upload = [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); },
      .download =
          [](void* to, const void* from, size_t bytes) {
            cuda::wait_for_device("download");
            std::memcpy(to, from, bytes);
          },
      .staging = cuda_host_device,
      .synchronize = [] { cuda::wait_for_device("step"); },
      .memory = [] { return host_device().memory(); },
  };
  return device;
}

std::string cuda_unavailable() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no NVIDIA driver is installed";
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is too old: it knows CUDA " + std::to_string(driver / 1000) + "." +
           std::to_string(driver % 1000 / 10) + ", want " + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION % 1000 / 10);
  if (status != cudaSuccess || count == 0)
    return std::string("no GPU is found: CUDA says ") +
           (status == cudaSuccess ? "there is none" : cudaGetErrorString(status));
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return "GPU 0 does not answer";
  if (properties.major < 8)
    return std::string(properties.name) + " has compute capability " + std::to_string(properties.major) +
           "." + std::to_string(properties.minor) + ", want at least 8.0";
  cudaFuncAttributes attributes{};
  cudaError_t usable = cudaFree(nullptr);  // makes a context
  if (usable == cudaSuccess) usable = cudaFuncGetAttributes(&attributes, cuda::probe_kernel);
  if (usable != cudaSuccess) {
    cudaGetLastError();
    return std::string(properties.name) + " cannot be used: CUDA says " + cudaGetErrorString(usable) +
           " (its memory may be full, it may be another's alone, or the driver too old for this program)";
  }
  return "";
}

std::string cuda_device_name() {
  cudaDeviceProp properties{};
  int driver = 0;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess || cudaDriverGetVersion(&driver) != cudaSuccess)
    return "";
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor) + ", CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

}  // namespace nanovllm
