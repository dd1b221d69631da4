// What the machine is and gives: the yardsticks beside every measured speed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nanovllm {

// "Intel(R) Xeon(R) Processor, 2 cores, avx512"
std::string machine_name(int num_threads, std::string_view instruction_set);

// Bytes that the control groups of this process allow; none: no limit. root: where /proc and /sys hang.
std::optional<size_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

// Memory that the system can still give: MemAvailable, cut by the limits of control groups, whose page cache counts as
// free. 0: cannot be told. root: where /proc and /sys hang.
size_t available_memory(const std::filesystem::path& root = "/");

// GB/s of reading a gigabyte once, all threads together, each with its own stretch, prefetching 8 KiB ahead; one value a
// run. throws Error(kOutOfMemory)
std::vector<double> read_bandwidth(int num_threads);

}  // namespace nanovllm
