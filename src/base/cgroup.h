// The control groups (version 2) that this process is in: each may limit it, and the tightest limit holds.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace nanovllm {

// Their folders, from the process's own up to the one that is mounted. root: where /proc and /sys hang.
std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root = "/");

// Processors' worth of time that they allow; none: no limit.
std::optional<double> cgroup_processors(const std::filesystem::path& root = "/");

}  // namespace nanovllm
