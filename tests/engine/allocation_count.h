// Counts what the test program takes from the heap: a step allocates nothing once its arrays have grown.
// Link allocation_count.cpp, which replaces operator new.
#pragma once

#include <cstddef>

namespace nanovllm::test {

size_t num_allocations();  // since the program began, of all threads

}  // namespace nanovllm::test
