#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace nanovllm {
namespace {

// "/user.slice/x" of the line "0::/user.slice/x"; "/" where there is none.
std::string own_path(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return "/";
}

}  // namespace

std::vector<std::filesystem::path> cgroup_folders(const std::filesystem::path& root) {
  const std::filesystem::path mounted = root / "sys/fs/cgroup";
  std::vector<std::filesystem::path> folders;
  std::error_code ignored;
  for (std::filesystem::path path = own_path(root).substr(1); !path.empty(); path = path.parent_path())
    if (std::filesystem::is_directory(mounted / path, ignored)) folders.push_back(mounted / path);
  folders.push_back(mounted);
  return folders;
}

std::optional<double> cgroup_processors(const std::filesystem::path& root) {
  std::optional<double> least;
  for (const std::filesystem::path& folder : cgroup_folders(root)) {
    std::ifstream file(folder / "cpu.max");  // "200000 100000"; "max 100000": no limit
    double quota = 0, period = 0;
    if (file >> quota >> period && period > 0)
      least = std::min(least.value_or(quota / period), quota / period);
  }
  return least;
}

}  // namespace nanovllm
