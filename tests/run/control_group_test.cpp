// What control groups let a process use, read from folders that stand for /proc and /sys/fs/cgroup.
#include "harness/run/looks/control_group.h"

#include <gtest/gtest.h>

#include "harness/run/looks/machine_state.h"
#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

class ControlGroupTest : public ::testing::Test {
 protected:
  [[nodiscard]] ControlGroup group(const std::string& membership) {
    return ControlGroup(folder_.write("cgroup", membership), folder_ / "mount");
  }
  fakes::TempFolder folder_;
};

TEST_F(ControlGroupTest, TheSmallestLimitOnTheWayUpHolds) {
  folder_.write("mount/outer/memory.max", "3000\n");
  folder_.write("mount/outer/inner/memory.max", "max\n");
  EXPECT_EQ(group("0::/outer/inner\n").memory_limit(), 3000);
  folder_.write("mount/outer/inner/memory.max", "2000\n");
  EXPECT_EQ(group("0::/outer/inner\n").memory_limit(), 2000);
  EXPECT_EQ(group("0::/\n").memory_limit(), std::nullopt);
}

TEST_F(ControlGroupTest, AContainerThatIsToldThePathOfItsHostHasTheLimitOfItsRoot) {
  folder_.write("mount/memory.max", "1000\n");
  folder_.write("mount/memory.events", "low 0\noom 2\noom_kill 2\n");
  const ControlGroup container = group("0::/docker/0123\n");
  EXPECT_EQ(container.memory_limit(), 1000);
  EXPECT_EQ(container.oom_kills(), 2);
}

TEST_F(ControlGroupTest, VersionOneHasOneFolderAController) {
  folder_.write("mount/memory/a/memory.limit_in_bytes", "4000\n");
  folder_.write("mount/memory/a/memory.oom_control", "oom_kill_disable 0\noom_kill 7\n");
  for (const char* controllers : {"memory", "cpu,memory"}) {
    const ControlGroup old = group("3:cpuset:/b\n4:" + std::string(controllers) + ":/a\n");
    EXPECT_EQ(old.memory_limit(), 4000);
    EXPECT_EQ(old.oom_kills(), 7);
  }
}

TEST_F(ControlGroupTest, WhatCannotBeReadIsNoLimit) {
  for (const char* membership : {"", "nonsense\n", "0::\n", "0::no/slash\n", "::::\n"}) {
    EXPECT_EQ(group(membership).memory_limit(), std::nullopt) << membership;
    EXPECT_EQ(group(membership).oom_kills(), std::nullopt) << membership;
  }
}

TEST(UsableMemory, IsNeverMoreThanTheMachineHas) {
  EXPECT_GT(usable_memory_bytes(), 0);
  EXPECT_LE(usable_memory_bytes(), *read_counter("/proc/meminfo", "MemTotal:") * 1024);
}

TEST(MemoryKill, NeedsTheCounterAndHalfOfTheMemory) {
  EXPECT_EQ(memory_kill(0, 100, 100), MemoryKill::none);
  EXPECT_EQ(memory_kill(1, 51, 100), MemoryKill::this_case);
  EXPECT_EQ(memory_kill(1, 50, 100), MemoryKill::somebody);
  EXPECT_EQ(memory_kill(3, 0, 0), MemoryKill::somebody) << "nothing is known";
}

}  // namespace
}  // namespace harness
