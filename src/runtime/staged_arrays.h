// Arrays of one step on their way to the device: laid end to end in staging memory, each at a multiple of 64 bytes, and sent down
// with one copy. There are two staging buffers, in turn: the arrays of the next step may be laid out while those of the last one
// are on their way. The size is fixed at the start, so a step allocates nothing.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/assert.h"
#include "ops/ops.h"

namespace nanovllm {

class StagedArrays {
 public:
  static constexpr size_t kAlignedWords = 16;  // 64 bytes
  static size_t aligned(size_t words) { return (words + kAlignedWords - 1) / kAlignedWords * kAlignedWords; }

  // bytes: of all arrays of a step. state: Context::state, whose queue copies
  StagedArrays(const OpTable& ops, void* state, size_t bytes, const char* what)
      : queue_(*ops.queue),
        state_(state),
        staging_{{ops.device->staging(), bytes, what}, {ops.device->staging(), bytes, what}},
        buffer_(*ops.device, bytes, what) {}

  // Forgets the last step's. Between two of them and a third the first one's step must be over.
  void begin() {
    turn_ = 1 - turn_;
    used_ = 0;
  }
  // Room for 32-bit elements; what is written to `staging` goes to the tensor with send().
  Tensor reserve(DType dtype, std::initializer_list<int64_t> shape, void*& staging) {
    const Tensor tensor = Tensor::view(static_cast<int32_t*>(buffer_.data()) + used_, dtype, shape);
    staging = static_cast<int32_t*>(staging_[turn_].data()) + used_;
    used_ += size_t(tensor.num_elements());
    ASSERT(used_ * sizeof(int32_t) <= buffer_.bytes());
    used_ = aligned(used_);
    return tensor;
  }
  // What `array` lacks of the shape is padding, if there is one.
  template <class T>
  Tensor put(const std::vector<T>& array, std::initializer_list<int64_t> shape,
             std::type_identity_t<std::optional<T>> padding = std::nullopt) {
    static_assert(sizeof(T) == sizeof(int32_t));
    void* staging = nullptr;
    const Tensor tensor = reserve(std::is_same_v<T, float> ? DType::kF32 : DType::kI32, shape, staging);
    const size_t count = size_t(tensor.num_elements());
    ASSERT(array.size() == count || (padding && array.size() < count));
    T* to = static_cast<T*>(staging);
    std::fill(std::copy(array.begin(), array.end(), to), to + count, padding.value_or(T{}));
    return tensor;
  }
  // 0, 1, …, count - 1
  Tensor put_range(int64_t count) {
    void* staging = nullptr;
    const Tensor tensor = reserve(DType::kI32, {count}, staging);
    std::iota(static_cast<int32_t*>(staging), static_cast<int32_t*>(staging) + count, 0);
    return tensor;
  }
  void send() {
    const size_t bytes = std::min(used_ * sizeof(int32_t), buffer_.bytes());
    queue_.upload(state_, buffer_.data(), staging_[turn_].data(), bytes);
  }

 private:
  const DeviceQueue& queue_;
  void* state_;
  DeviceBuffer staging_[2], buffer_;
  int turn_ = 0;
  size_t used_ = 0;  // words
};

}  // namespace nanovllm
