// What the machine is and gives: the yardsticks beside every measured speed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm {

// "Intel(R) Xeon(R) Processor, 2 cores, avx512"
std::string machine_name(int num_threads, std::string_view instruction_set);

// Memory that the system can still give: MemAvailable, cut by a cgroup's limit, whose page cache counts as
// free. 0: cannot be told. root: where /proc and /sys hang.
size_t available_memory(const std::filesystem::path& root = "/");

// GB/s of reading a gigabyte once, all threads together, each with its own stretch, prefetching 8 KiB ahead; one value a
// run. throws Error(kOutOfMemory)
std::vector<double> read_bandwidth(int num_threads);

}  // namespace nanovllm
