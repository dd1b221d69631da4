#include "tensor/machine.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/assert.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "tensor/device.h"

namespace nanovllm {
namespace {

// Seconds of each of several runs of all tasks.
std::vector<double> seconds_of(ThreadPool& pool, int64_t tasks, const auto& body) {
  constexpr int kRuns = 9;
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(tasks, body);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return seconds;
}

// work / seconds of each run, in units of 10^9.
std::vector<double> rates(double work, const std::vector<double>& seconds) {
  std::vector<double> result;
  for (const double s : seconds) result.push_back(work / s / 1e9);
  return result;
}

// Adds up `bytes` bytes; eight words a line, each its own sum.
uint64_t read_all(const uint64_t* data, size_t bytes, size_t ahead) {
  uint64_t sum[8] = {};
  for (size_t i = 0; i < bytes / 8; i += 8) {
    __builtin_prefetch(reinterpret_cast<const char*>(data + i) + ahead, 0, 2);
    for (size_t j = 0; j < 8; ++j) sum[j] += data[i + j];
  }
  uint64_t total = 0;
  for (const uint64_t s : sum) total += s;
  return total;
}

size_t read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  size_t value = 0;
  return file >> value ? value : 0;
}

// The number after a word: "MemAvailable:  123", "inactive_file 456"; 0 where there is none.
size_t read_number_after(const std::filesystem::path& path, std::string_view word) {
  std::ifstream file(path);
  for (std::string key; file >> key;) {
    size_t value = 0;
    if (key == word && file >> value) return value;
  }
  return 0;
}

}  // namespace

std::string machine_name(int num_threads, std::string_view instruction_set) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, name = "unknown processor";
  while (std::getline(cpuinfo, line))
    if (line.starts_with("model name")) name = line.substr(line.find(':') + 2);
  return name + ", " + std::to_string(num_threads) + " cores, " + std::string(instruction_set);
}

std::vector<double> read_bandwidth(int num_threads) {
  constexpr size_t kBytes = size_t{1} << 30, kAhead = 8192;
  const DeviceBuffer buffer(host_device(), kBytes + 2 * kAhead, "bandwidth measurement");
  std::memset(buffer.data(), 1, buffer.bytes());
  ThreadPool pool(num_threads);
  const size_t share = kBytes / size_t(num_threads) / 64 * 64;
  std::atomic<uint64_t> sum{0};  // so that the reads are not left out
  const std::vector<double> seconds = seconds_of(pool, num_threads, [&](int64_t t) {
    sum += read_all(static_cast<const uint64_t*>(buffer.data()) + size_t(t) * share / 8, share, kAhead);
  });
  ASSERT(sum > 0);
  return rates(double(share) * num_threads, seconds);
}

std::optional<size_t> cgroup_memory_limit(const std::filesystem::path& root) {
  std::optional<size_t> least;
  for (const std::filesystem::path& folder : cgroup_folders(root))
    if (const size_t limit = read_number(folder / "memory.max"); limit > 0)  // "max": no limit
      least = std::min(least.value_or(limit), limit);
  return least;
}

size_t available_memory(const std::filesystem::path& root) {
  size_t available = read_number_after(root / "proc/meminfo", "MemAvailable:") << 10;
  for (const std::filesystem::path& folder : cgroup_folders(root)) {
    const size_t limit = read_number(folder / "memory.max");
    if (limit == 0) continue;
    const size_t cache = read_number_after(folder / "memory.stat", "inactive_file") +
                         read_number_after(folder / "memory.stat", "active_file");
    const size_t current = read_number(folder / "memory.current");
    const size_t used = current - std::min(current, cache);
    available = std::min(available, limit - std::min(limit, used));
  }
  return available;
}

}  // namespace nanovllm
