// One step's activations: memory that is taken from the front and given back whole.
//
// The size is known before the first step (runtime/memory_plan), so a step allocates nothing. A Scope gives
// back what was taken since it began: a layer's temporaries have gone when the next layer starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace nanovllm {

class Arena {
 public:
  static constexpr size_t kAlignment = 64;

  Arena(const Device& device, size_t bytes);
  // Holds no memory and never ends: its tensors may be measured, not read.
  static Arena measuring() { return Arena(); }

  // Uninitialised. The sum of what is alive must fit: a larger step than was planned for is our bug.
  Tensor make(DType dtype, std::initializer_list<int64_t> shape);

  size_t used() const { return used_; }
  size_t peak() const { return peak_; }  // the most that was ever in use

  // Bytes that make() takes for one tensor.
  static size_t bytes_of(DType dtype, std::initializer_list<int64_t> shape);

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t mark_;
  };

 private:
  Arena() = default;

  DeviceBuffer buffer_;
  size_t capacity_ = SIZE_MAX;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace nanovllm
