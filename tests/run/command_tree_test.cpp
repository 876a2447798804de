// Which processes of a command are ranks: real ones, by the variables that launchers set.
#include "harness/run/processes/command_tree.h"

#include <csignal>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/clock.h"

namespace {

using harness::CommandTree;
using testing::ElementsAre;
using testing::Pair;

class CommandTreeTest : public testing::Test {
 protected:
  ~CommandTreeTest() override {
    for (const pid_t pid : started_) kill(-pid, SIGKILL);
    for (const pid_t pid : started_) waitpid(pid, nullptr, 0);
  }

  // `command` is of /bin/sh, in a group of its own, with these variables alone.
  void start(const std::string& command, std::vector<std::string> variables) {
    std::vector<char*> environment;
    for (std::string& one : variables) environment.push_back(one.data());
    environment.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      setpgid(0, 0);
      execle("/bin/sh", "sh", "-c", command.c_str(), nullptr, environment.data());
      _exit(127);
    }
    setpgid(pid, pid);
    started_.push_back(pid);
  }

  // rank -> number of all, once there are so many.
  std::multimap<int, int> found(std::size_t wanted) {
    constexpr std::int64_t kDeadlineMs = 20'000;
    std::multimap<int, int> ranks;
    const std::int64_t begun = harness::monotonic_ms();
    do {
      usleep(20'000);
      tree_.scan(harness::monotonic_ms() - begun);
      ranks.clear();
      for (const auto& rank : tree_.ranks()) ranks.emplace(rank.rank, rank.world);
    } while (ranks.size() < wanted && harness::monotonic_ms() - begun < kDeadlineMs);
    return ranks;
  }

 private:
  CommandTree tree_{getpid()};
  std::vector<pid_t> started_;
};

TEST_F(CommandTreeTest, EachLauncherHasItsOwnVariableAndChildrenInheritIt) {
  start("sleep 60 & sleep 60; :", {"RANK=1", "WORLD_SIZE=6"});
  start("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=6 sleep 60; :", {});
  start("PMI_RANK=3 sleep 60 & SLURM_PROCID=4 SLURM_NTASKS=6 sh -c 'sleep 60; :'; :", {});
  EXPECT_THAT(found(4), ElementsAre(Pair(1, 6), Pair(2, 6), Pair(3, 0), Pair(4, 6)));
}

TEST_F(CommandTreeTest, RankCountsBeforeTheNumberOfAJobThatAllTasksInherit) {
  start("RANK=0 sleep 60 & RANK=1 sleep 60; :", {"OMPI_COMM_WORLD_RANK=x"});
  start("RANK=2 sleep 60; :", {"SLURM_PROCID=0"});
  EXPECT_THAT(found(3), ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0)));
}

TEST_F(CommandTreeTest, AProcessWithoutANumberIsNoRank) {
  start("sleep 60; :", {"RANK=one"});
  start("RANK=7 sleep 60; :", {"PMI_SIZE=3"});
  EXPECT_THAT(found(1), ElementsAre(Pair(7, 0)));
}

}  // namespace
