// Counts what the test program takes from the heap: a step allocates nothing once its arrays have grown.
// Link allocation_count.cpp, which replaces operator new.
#pragma once

#include <cstddef>

namespace nanovllm::test {

size_t num_allocations();       // since the program began, of all threads
size_t num_live_allocations();  // of these, not given back

}  // namespace nanovllm::test
