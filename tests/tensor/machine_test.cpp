#include "tensor/machine.h"

#include <gtest/gtest.h>

#include <map>

#include "support.h"
#include "tensor/device.h"

namespace nanovllm {
namespace {

TEST(Machine, ThisMachineTellsItsMemory) { EXPECT_GT(available_memory(), size_t{1} << 20); }

// A machine's files, as much of them as is asked for.
size_t available_with(const std::map<std::string, std::string>& files) {
  test::ScratchFolder root;
  for (const auto& [name, text] : files) root.write(name, text);
  return available_memory(root.path());
}

TEST(Machine, AvailableMemoryIsCutByTheCgroup) {
  const std::string meminfo = "MemTotal: 9000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\nBuffers: 5 kB\n";
  EXPECT_EQ(available_with({}), 0u);
  EXPECT_EQ(available_with({{"proc/meminfo", meminfo}}), 1000u << 10);
  const auto in_cgroup = [&](const std::string& max, const std::string& current, const std::string& stat) {
    return available_with({{"proc/meminfo", meminfo},
                           {"sys/fs/cgroup/memory.max", max},
                           {"sys/fs/cgroup/memory.current", current},
                           {"sys/fs/cgroup/memory.stat", stat}});
  };
  EXPECT_EQ(in_cgroup("max\n", "5000\n", ""), 1000u << 10);  // no limit
  EXPECT_EQ(in_cgroup("9000\n", "5000\n", ""), 4000u);
  EXPECT_EQ(in_cgroup("99000000\n", "5000\n", ""), 1000u << 10);  // the machine has less
  EXPECT_EQ(in_cgroup("9000\n", "12000\n", ""), 0u);
  // Pages of files are given back when they are wanted.
  EXPECT_EQ(in_cgroup("9000\n", "5000\n", "anon 70\ninactive_file 1000\nactive_file 200\n"), 5200u);
  EXPECT_EQ(in_cgroup("9000\n", "500\n", "inactive_file 1000\n"), 9000u);
}

TEST(Machine, EveryControlGroupAboveMayLimit) {
  test::ScratchFolder root;
  root.write("proc/meminfo", "MemAvailable: 1000 kB\n");
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  root.write("sys/fs/cgroup/outer/memory.max", "9000\n");
  root.write("sys/fs/cgroup/outer/memory.current", "5000\n");
  root.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), 9000u);
  EXPECT_EQ(available_memory(root.path()), 4000u);
  root.write("sys/fs/cgroup/outer/inner/memory.max", "3000\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), 3000u);
  EXPECT_EQ(available_memory(root.path()), 3000u);
}

TEST(Machine, TheHostDeviceTellsIt) {
  const Memory memory = host_device().memory();
  EXPECT_GT(memory.available, size_t{1} << 20);
  EXPECT_EQ(memory.total, 0u);  // shared with others
}

}  // namespace
}  // namespace nanovllm
