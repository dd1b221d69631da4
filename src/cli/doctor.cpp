#include "cli/doctor.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/cgroup.h"
#include "base/thread_pool.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/cuda_ops.h"
#include "runtime/memory_plan.h"
#include "tensor/machine.h"

namespace nanovllm::cli {
namespace {

using nlohmann::ordered_json;

// Of those that kernels here or to come ask for, which this processor has.
std::vector<std::string> processor_features() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::vector<std::string> found;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    const std::vector<std::string> flags{std::istream_iterator<std::string>(words), {}};
    for (const char* feature :
         {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16",
          "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"})
      if (std::find(flags.begin(), flags.end(), feature) != flags.end()) found.push_back(feature);
    break;
  }
  return found;
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
  const cpu::KernelList list = cpu::runnable_kernels();
  for (int i = 0; i < list.count; ++i) sets.emplace_back(list.sets[i]->instruction_set);
  return sets;
}

int affinity_count() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

// Empty: there is no such file.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// null: no limit
template <class Number>
ordered_json or_null(const std::optional<Number>& limit) {
  return limit ? ordered_json(*limit) : ordered_json();
}

// Their names, as the driver says them.
std::vector<std::string> nvidia_gpus() {
  std::vector<std::string> names;
  std::error_code no_driver;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", no_driver)) {
    std::ifstream information(gpu.path() / "information");
    for (std::string line; std::getline(information, line);)
      if (line.starts_with("Model:")) names.push_back(line.substr(line.find_first_not_of(" \t", 6)));
  }
  return names;
}

bool can_open_library(const char* name) {
  // Kept mapped: what some libraries take when they are loaded would otherwise count as leaked.
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library) dlclose(library);
  return library != nullptr;
}

// null: the gigabyte that is read is not there.
ordered_json measure_bandwidth(int num_threads) {
  constexpr size_t kEnough = size_t{2} << 30;
  if (available_memory() < kEnough) return nullptr;
  std::vector<double> rates = read_bandwidth(num_threads);
  std::nth_element(rates.begin(), rates.begin() + std::ptrdiff_t(rates.size() / 2), rates.end());
  return rates[rates.size() / 2];
}

ordered_json examine() {
  const std::vector<std::string> sets = instruction_sets();
  const int num_threads = usable_processors();
  const std::string no_cuda = cuda_unavailable();
  const std::string name = machine_name(num_threads, sets[0]);
  ordered_json libraries = ordered_json::object();
  for (const char* library : {"libcuda.so.1", "libcublasLt.so.13", "libcublasLt.so.12", "libnccl.so.2"})
    libraries[library] = can_open_library(library);
  return {{"processor", name.substr(0, name.find(','))},
          {"features", processor_features()},
          {"instruction_sets", sets},
          {"processors", sysconf(_SC_NPROCESSORS_ONLN)},
          {"affinity", affinity_count()},
          {"cgroup_processors", or_null(cgroup_processors())},
          {"memory_available_bytes", available_memory()},
          {"cgroup_memory_bytes", or_null(cgroup_memory_limit())},
          {"read_bandwidth_gb_per_s", measure_bandwidth(num_threads)},
          {"nvidia_gpus", nvidia_gpus()},
          {"nvidia_driver", first_line("/proc/driver/nvidia/version")},
          {"libraries", libraries},
          {"cuda_device", no_cuda.empty() ? cuda_device_name() : ""},
          {"cuda_unavailable", no_cuda},
          {"backends", no_cuda.empty() ? std::vector{"cuda", "cpu"} : std::vector{"cpu"}},
          {"chosen",
           {{"backend", no_cuda.empty() ? "cuda" : "cpu"},
            {"instruction_set", sets[0]},
            {"num_threads", num_threads}}}};
}

std::string joined(const ordered_json& list) {
  std::string text;
  for (const std::string word : list) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

void print_row(const char* name, const std::string& value) { std::printf("%-20s %s\n", name, value.c_str()); }

}  // namespace

int run_doctor(const DoctorOptions& options) {
  const ordered_json found = examine();
  if (options.json) {
    std::cout << found.dump(2) << "\n";
    return 0;
  }
  char bandwidth[80], memory[80], quota[40] = "none", memory_limit[40] = "none";
  if (!found["cgroup_processors"].is_null())
    std::snprintf(quota, sizeof quota, "%.3g processors", found["cgroup_processors"].get<double>());
  if (!found["cgroup_memory_bytes"].is_null())
    std::snprintf(memory_limit, sizeof memory_limit, "%.1f GB",
                  found["cgroup_memory_bytes"].get<double>() / 1e9);
  if (found["read_bandwidth_gb_per_s"].is_null())
    std::snprintf(bandwidth, sizeof bandwidth, "not measured: that takes 2 GB");
  else
    std::snprintf(bandwidth, sizeof bandwidth, "%.1f GB/s, read by %d threads",
                  found["read_bandwidth_gb_per_s"].get<double>(), found["chosen"]["num_threads"].get<int>());
  std::snprintf(memory, sizeof memory, "%.1f GB available, limit of the cgroup %s",
                found["memory_available_bytes"].get<double>() / 1e9, memory_limit);
  std::string libraries;
  for (const auto& [name, there] : found["libraries"].items())
    if (there) libraries += (libraries.empty() ? "" : ", ") + name;
  print_row("processor", found["processor"]);
  print_row("features", joined(found["features"]));
  print_row("processors", std::to_string(found["processors"].get<int>()) + " online, " +
                              std::to_string(found["affinity"].get<int>()) +
                              " for this process, quota of the cgroup " + quota);
  print_row("memory", memory);
  print_row("memory bandwidth", bandwidth);
  print_row("NVIDIA GPUs", joined(found["nvidia_gpus"]));
  print_row("NVIDIA driver", or_none(found["nvidia_driver"]));
  print_row("CUDA libraries", or_none(libraries));
  std::printf("\n");
  const std::string no_cuda = found["cuda_unavailable"];
  print_row("backend", no_cuda.empty() ? "cuda: " + cuda_device_name() + " (--device)" : "cpu: " + no_cuda);
  print_row("instruction set", found["chosen"]["instruction_set"].get<std::string>() +
                                   ": the first that runs here of " + joined(found["instruction_sets"]) +
                                   " (--instruction-set)");
  print_row("threads", std::to_string(found["chosen"]["num_threads"].get<int>()) +
                           ": the processors of this process, cut by the quota (--num-threads)");
  return 0;
}

}  // namespace nanovllm::cli
