#include "base/cgroup.h"

#include "support.h"

namespace nanovllm {
namespace {

TEST(Cgroup, WithoutFilesThereIsNoLimit) {
  const test::ScratchFolder root;
  EXPECT_EQ(cgroup_folders(root.path()), std::vector{root / "sys/fs/cgroup"});
  EXPECT_EQ(cgroup_processors(root.path()), std::nullopt);
}

TEST(Cgroup, TheTightestOfThoseAboveHolds) {
  const test::ScratchFolder root;
  root.write("proc/self/cgroup", "3:cpu:/old\n0::/user.slice/work/job\n");
  root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  root.write("sys/fs/cgroup/user.slice/work/cpu.max", "800000 100000\n");
  root.write("sys/fs/cgroup/user.slice/work/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_folders(root.path()),
            (std::vector{root / "sys/fs/cgroup/user.slice/work/job", root / "sys/fs/cgroup/user.slice/work",
                         root / "sys/fs/cgroup/user.slice", root / "sys/fs/cgroup"}));
  EXPECT_EQ(cgroup_processors(root.path()), 1.5);
}

// In a container the path is one of the host's, and what is mounted is the container's own.
TEST(Cgroup, APathThatIsNotHereIsPassedOver) {
  const test::ScratchFolder root;
  root.write("proc/self/cgroup", "0::/docker/abc\n");
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_folders(root.path()), std::vector{root / "sys/fs/cgroup"});
  EXPECT_EQ(cgroup_processors(root.path()), 0.5);
  root.write("sys/fs/cgroup/cpu.max", "nonsense\n");
  EXPECT_EQ(cgroup_processors(root.path()), std::nullopt);
}

}  // namespace
}  // namespace nanovllm
