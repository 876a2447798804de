// What a case's mark finds: its own processes, however far they went, and nobody else's.
#include "harness/run/processes/left_behind.h"

#include <gtest/gtest.h>

#include "harness/run/processes/guardian.h"
#include "harness/run/processes/keeper.h"
#include "harness/run/processes/spawn_process.h"
#include "tests/fakes/temp_folder.h"
#include "tests/run/run_support.h"

namespace harness {
namespace {

class LeftBehindTest : public ::testing::Test {
 protected:
  Process start(const CaseMark& mark, const std::vector<std::string>& argv) {
    ProcessRequest request;
    request.argv = argv;
    request.environment = {"ONLY=this"};
    request.out_path = "/dev/null";
    request.err_path = "/dev/null";
    request.mark = mark.number;
    return Process::spawn(request);
  }

  fakes::TempFolder folder_;
  const CaseMark mine_ = draw_mark(folder_.path());
  const CaseMark other_ = draw_mark(folder_.path() + "/other");
};

TEST_F(LeftBehindTest, AProcessIsFoundByItsNumberAlone) {
  ASSERT_NE(mine_.number, 0u);
  const Process process = start(mine_, {"/bin/sleep", "600"});
  EXPECT_TRUE(has_mark(process.pid(), mine_));
  const LeftBehind left = end_left_behind(mine_);
  EXPECT_EQ(left.ended, std::vector<std::string>{"sleep"});
  EXPECT_TRUE(left.stayed.empty());
  EXPECT_TRUE(process.exited());
}

TEST_F(LeftBehindTest, ANeighboursProcessIsLeftAlone) {
  ASSERT_NE(mine_.number, other_.number);
  const Process neighbour = start(other_, {"/bin/sleep", "600"});
  const Process of_nobody = start({}, {"/bin/sleep", "600"});
  const LeftBehind left = end_left_behind(mine_);
  EXPECT_TRUE(left.ended.empty());
  EXPECT_FALSE(neighbour.exited());
  EXPECT_FALSE(of_nobody.exited());
}

TEST_F(LeftBehindTest, WhoeverStartsAProcessIsNotMarkedItself) {
  const Process process = start(mine_, {"/bin/sleep", "600"});
  EXPECT_FALSE(has_mark(getpid(), mine_));
}

TEST_F(LeftBehindTest, WhatAKeeperSaysIsRead) {
  EXPECT_EQ(read_keeper("").command, 0);
  EXPECT_EQ(read_keeper("12").command, 0) << "half a line";
  EXPECT_EQ(read_keeper("1234\n").command, 1234);
  EXPECT_FALSE(read_keeper("1234\n").end);
  EXPECT_EQ(read_keeper("1234\nended 768\n").end->exit_code, 3);
  EXPECT_EQ(read_keeper("1234\nended 9\n").end->signal, 9);
  EXPECT_EQ(read_keeper("ended 32512\n").end->exit_code, 127);
  const auto said = read_keeper("1234\nended 0\nleft 7 (python3 train.py)\nleft 8 (sleep");
  EXPECT_EQ(said.left, std::vector<std::string>{"7 (python3 train.py)"});
  EXPECT_EQ(said.command, 1234);
}

}  // namespace
}  // namespace harness
