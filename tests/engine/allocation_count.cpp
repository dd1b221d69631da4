#include "engine/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> count = 0, freed = 0;

void give_back(void* data) {
  if (data) ++freed;
  std::free(data);
}

void* counted(size_t bytes, size_t alignment) {
  ++count;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;  // as aligned_alloc wants it
  if (void* data = std::aligned_alloc(alignment, rounded ? rounded : alignment)) return data;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, size_t(alignment)); }
void operator delete(void* data) noexcept { give_back(data); }
void operator delete(void* data, size_t) noexcept { give_back(data); }
void operator delete(void* data, std::align_val_t) noexcept { give_back(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { give_back(data); }

namespace nanovllm::test {

size_t num_allocations() { return count; }
size_t num_live_allocations() { return count - freed; }

}  // namespace nanovllm::test
