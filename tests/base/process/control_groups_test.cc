// SPDX-License-Identifier: MIT
#include "base/process/control_groups.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

// A tree of files in the place of the system's.
class ControlGroups : public testing::Test {
 protected:
  ControlGroups()
      : root_(fs::path(testing::TempDir()) /
              ("mnemon-groups-" + std::to_string(getpid()))) {}
  ~ControlGroups() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path.substr(1);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  GroupLimits Read() { return ReadGroupLimits(root_.string()); }

 private:
  const fs::path root_;
};

constexpr char kUnified[] =
    "24 30 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
    "29 23 0:25 / /sys/fs/cgroup rw shared:4 master:1 - cgroup2 cgroup2 rw\n";

TEST_F(ControlGroups, WithoutFilesNothingIsLimited) {
  const GroupLimits limits = Read();
  EXPECT_EQ(limits.cores, std::nullopt);
  EXPECT_EQ(limits.memory_bytes, std::nullopt);
}

TEST_F(ControlGroups, TheProcesssOwnGroupCounts) {
  Write("/proc/self/mountinfo", kUnified);
  Write("/proc/self/cgroup", "0::/system.slice/mnemon.service\n");
  const std::string group = "/sys/fs/cgroup/system.slice/mnemon.service";
  Write(group + "/cpu.max", "250000 100000\n");
  Write(group + "/memory.max", "1073741824\n");
  Write("/sys/fs/cgroup/system.slice/other.service/memory.max", "1\n");
  EXPECT_EQ(Read().cores, 2.5);
  EXPECT_EQ(Read().memory_bytes, int64_t{1} << 30);
}

TEST_F(ControlGroups, OfNestedGroupsTheSmallestLimitCounts) {
  Write("/proc/self/mountinfo", kUnified);
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "4096\n");
  Write("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/a/b/c/memory.max", "8192\n");
  EXPECT_EQ(Read().cores, 3);
  EXPECT_EQ(Read().memory_bytes, 4096);
}

// The mount begins at the container's group, or the group is named as seen from inside.
TEST_F(ControlGroups, AContainerSeesItsOwnGroupAtTheMount) {
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  Write("/sys/fs/cgroup/inner/memory.max", "100\n");
  Write("/proc/self/mountinfo",
        "29 23 0:25 /docker/1f2e /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  Write("/proc/self/cgroup", "0::/docker/1f2e/inner\n");
  EXPECT_EQ(Read().cores, 0.5);
  EXPECT_EQ(Read().memory_bytes, 100);
  Write("/proc/self/cgroup", "0::/docker/1f2e4\n");
  EXPECT_EQ(Read().cores, 0.5);
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
  Write("/proc/self/cgroup", "0::/../other\n");
  EXPECT_EQ(Read().cores, 0.5);
}

TEST_F(ControlGroups, Version1HasAHierarchyForEachResource) {
  Write("/proc/self/mountinfo",
        "32 31 0:29 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /cg/with\\040space rw - cgroup cgroup rw,memory\n"
        "40 31 0:37 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n");
  Write("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/m/n\n2:cpu,cpuacct:/c\n");
  Write("/cg/cpu,cpuacct/c/cpu.cfs_quota_us", "150000\n");
  Write("/cg/cpu,cpuacct/c/cpu.cfs_period_us", "50000\n");
  Write("/cg/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("/cg/with space/m/memory.limit_in_bytes", "5000\n");
  Write("/cg/with space/m/n/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().cores, 3);
  EXPECT_EQ(Read().memory_bytes, 5000);
}

TEST_F(ControlGroups, GarbageSetsNoLimit) {
  Write("/proc/self/mountinfo", "29 23\n\nx - cgroup2\n" + std::string(kUnified));
  Write("/proc/self/cgroup", "0\n:\n0::/a\n");
  Write("/sys/fs/cgroup/a/cpu.max", "fast slow\n");
  Write("/sys/fs/cgroup/a/memory.max", "");
  EXPECT_EQ(Read().cores, std::nullopt);
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
}

TEST(UsableMemory, IsTheMachinesOrLess) {
  const int64_t machine = UsableMemory({});
  EXPECT_GT(machine, 0);
  EXPECT_EQ(UsableMemory({.memory_bytes = 1000}), 1000);
  EXPECT_EQ(UsableMemory({.memory_bytes = int64_t{1} << 60}), machine);
}

}  // namespace
}  // namespace mnemon
