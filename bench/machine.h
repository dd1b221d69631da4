// What the machine gives: the yardsticks beside every result (docs/results.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nanovllm::bench {

// "Intel(R) Xeon(R) Processor, 2 cores, avx512"
std::string machine_name(int num_threads, std::string_view instruction_set);

// GB/s of reading a gigabyte once, all threads together, each with its own stretch, prefetching 8 KiB ahead; one value a
// run.
std::vector<double> read_bandwidth(int num_threads);

}  // namespace nanovllm::bench
