// The variables that switch PyTorch's flight recorder on, and a rank that answers through the pipe as PyTorch does.
#include "harness/run/processes/flight_recorders.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using harness::FlightRecorders;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

struct Folder {
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "flight_XXXXXX";
    name = mkdtemp(path.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name, ignored);
  }
  std::string name;
};

TEST(FlightRecorders, WhatTheUserSetsStays) {
  const Folder folder;
  const auto added =
      FlightRecorders(folder.name).variables({"PATH=/bin", "TORCH_FR_BUFFER_SIZE=7"});
  EXPECT_THAT(added, Contains(StartsWith("TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + folder.name)));
  EXPECT_THAT(added, Not(Contains(StartsWith("TORCH_NCCL_TRACE_BUFFER_SIZE"))));
}

TEST(FlightRecorders, WhereTheUserSaysWhereDumpsGoNobodyIsAsked) {
  const Folder folder;
  FlightRecorders recorders(folder.name);
  EXPECT_THAT(recorders.variables({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/x"}), IsEmpty());
  EXPECT_FALSE(recorders.step({0}, {0}, true, 0));
}

TEST(FlightRecorders, ADumpThatCannotBeReadIsTold) {
  const Folder folder;
  FlightRecorders recorders(folder.name);
  const std::string path = folder.name + "/flight/rank_1";
  std::ofstream(path) << R"({"version": "3.0"})";
  EXPECT_THAT(recorders.newest({0, 1}).back(), IsEmpty());
  EXPECT_THAT(recorders.unread(), ElementsAre(Pair(1, "version: found 3.0, wanted 2.x")));
  std::ofstream(path) << R"({"version": "2.10"} )";
  EXPECT_EQ(recorders.newest({0, 1}).back().size(), 1u);
  EXPECT_THAT(recorders.unread(), IsEmpty());
}

TEST(FlightRecorders, TwoAnswersThatShowTheSameTellWhoIsHeld) {
  const Folder folder;
  FlightRecorders recorders(folder.name);
  const std::string pipe = folder.name + "/flight/ask_rank_0.pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int asked = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  std::int64_t now_ms = 0;
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(recorders.held(), IsEmpty());
    EXPECT_FALSE(recorders.step({0}, {0, 1}, true, now_ms));
    char text[8];
    EXPECT_EQ(read(asked, text, sizeof text), 2);
    std::ofstream(folder.name + "/flight/rank_0")
        << R"({"version": "2.10", "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": 1,)"
        << R"("profiling_name": "nccl:all_reduce", "state": "started"}]})"
        << std::string(static_cast<std::size_t>(round), ' ');
    EXPECT_TRUE(recorders.step({0}, {0, 1}, true, now_ms + 100));
    now_ms += 10'000;
  }
  EXPECT_THAT(recorders.held(), ElementsAre(0));
  EXPECT_FALSE(recorders.step({0}, {0, 1}, false, now_ms));  // the command printed something
  EXPECT_THAT(recorders.held(), IsEmpty());
  close(asked);
}

}  // namespace
