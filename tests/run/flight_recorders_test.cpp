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
using Wanted = FlightRecorders::Wanted;
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

TEST(FlightRecorders, ATorchThatWarnsOfTheOlderNameDoesNotGetIt) {
  const Folder folder;
  const auto names = [&](const std::string& torch) {
    return FlightRecorders(folder.name).variables({}, torch);
  };
  const auto older = Contains(StartsWith("TORCH_NCCL_TRACE_BUFFER_SIZE"));
  for (const char* torch : {"2.11.0", "2.11.0+cu130", "2.12.1", "3.0.0"})
    EXPECT_THAT(names(torch), Not(older)) << torch;
  for (const char* torch : {"", "2.10.1", "2.7.0", "1.13", "garbage"})
    EXPECT_THAT(names(torch), older) << torch;
  EXPECT_THAT(names("2.11.0"), Contains(StartsWith("TORCH_FR_BUFFER_SIZE")));
}

TEST(FlightRecorders, WhereTheUserSaysWhereDumpsGoNobodyIsAsked) {
  const Folder folder;
  FlightRecorders recorders(folder.name);
  EXPECT_THAT(recorders.variables({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/x"}), IsEmpty());
  EXPECT_FALSE(recorders.step({0}, {0}, Wanted::silent, 0));
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
    EXPECT_FALSE(recorders.step({0}, {0, 1}, Wanted::silent, now_ms));
    char text[8];
    EXPECT_EQ(read(asked, text, sizeof text), 2);
    std::ofstream(folder.name + "/flight/rank_0")
        << R"({"version": "2.10", "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": 1,)"
        << R"("profiling_name": "nccl:all_reduce", "state": "started"}]})"
        << std::string(static_cast<std::size_t>(round), ' ');
    EXPECT_TRUE(recorders.step({0}, {0, 1}, Wanted::silent, now_ms + 100));
    now_ms += 10'000;
  }
  EXPECT_THAT(recorders.held(), ElementsAre(0));
  EXPECT_FALSE(recorders.step({0}, {0, 1}, Wanted::no, now_ms));  // the command printed something
  EXPECT_THAT(recorders.held(), IsEmpty());
  close(asked);
}

// A rank whose pipe is there, and that answers as told.
class Answering {
 public:
  Answering(const Folder& folder, int rank)
      : path_(folder.name + "/flight/rank_" + std::to_string(rank)) {
    const std::string pipe = folder.name + "/flight/ask_rank_" + std::to_string(rank) + ".pipe";
    EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    asked_ = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  }
  ~Answering() { close(asked_); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  [[nodiscard]] bool asked() const {
    char text[8];
    return read(asked_, text, sizeof text) > 0;
  }

  // What it issued last, of so many elements, and is not done. Spaces tell apart two files that say the same.
  void answer(int sequence, int elements) {
    std::ofstream(path_)
        << R"({"version": "2.10", "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": )"
        << sequence << R"(, "profiling_name": "nccl:all_reduce", "input_sizes": [[)" << elements
        << R"(]], "input_dtypes": ["Float"], "state": "started"}]})"
        << std::string(++answers_, ' ');
  }

 private:
  std::string path_;
  int asked_ = -1;
  std::size_t answers_ = 0;
};

// Two ranks that answer each question in a tenth of a second; `elements` and `sequence` of the round are what rank 1 waits for.
struct TwoRanks {
  TwoRanks() : recorders(folder.name), zero(folder, 0), one(folder, 1) {}

  // Whether they were asked.
  bool round(Wanted wanted, std::int64_t at_ms, int sequence, int elements) {
    recorders.step({0, 1}, {0, 1}, wanted, at_ms);
    const bool asked = zero.asked() && one.asked();
    if (!asked) return false;
    zero.answer(sequence, 8);
    one.answer(sequence, elements);
    EXPECT_TRUE(recorders.step({0, 1}, {0, 1}, wanted, at_ms + 100));
    return true;
  }

  Folder folder;
  FlightRecorders recorders;
  Answering zero;
  Answering one;
};

TEST(FlightRecorders, RanksThatIssuedSomethingElseAreAskedAgainAtOnceAndThenNoMore) {
  TwoRanks ranks;
  EXPECT_TRUE(ranks.round(Wanted::silent, 0, 1, 5));
  EXPECT_THAT(ranks.recorders.held(), IsEmpty()) << "one answer shows no standstill";
  EXPECT_THAT(ranks.recorders.waiting(), ElementsAre(0, 1));
  EXPECT_TRUE(ranks.round(Wanted::silent, 200, 1, 5));
  EXPECT_THAT(ranks.recorders.held(), ElementsAre(0, 1));
  for (std::int64_t now_ms = 400; now_ms < 8'000; now_ms += 100) {
    EXPECT_FALSE(ranks.round(Wanted::stalled, now_ms, 1, 5)) << now_ms;
  }
}

TEST(FlightRecorders, RanksThatWentOnAfterwardsAreNotHeldAndNotHurried) {
  TwoRanks ranks;
  EXPECT_TRUE(ranks.round(Wanted::silent, 0, 1, 5));
  EXPECT_TRUE(ranks.round(Wanted::silent, 200, 2, 8));
  EXPECT_THAT(ranks.recorders.held(), IsEmpty());
  EXPECT_THAT(ranks.recorders.waiting(), IsEmpty());
  EXPECT_FALSE(ranks.round(Wanted::silent, 400, 3, 8));
}

TEST(FlightRecorders, WhoWaitsForASlowerPeerIsNotHurriedSo) {
  TwoRanks ranks;
  ranks.recorders.step({0, 1}, {0, 1}, Wanted::silent, 0);
  ranks.zero.answer(2, 8);
  ranks.one.answer(1, 8);
  EXPECT_TRUE(ranks.recorders.step({0, 1}, {0, 1}, Wanted::silent, 100));
  EXPECT_THAT(ranks.recorders.waiting(), IsEmpty());
  ranks.recorders.step({0, 1}, {0, 1}, Wanted::silent, 1'000);
  EXPECT_TRUE(ranks.recorders.done());
}

// While every answer shows something new the questions come seldom, but a stall is asked about at once, if not too often.
TEST(FlightRecorders, AStallIsAskedAboutAtOnce) {
  TwoRanks ranks;
  std::int64_t now_ms = 0;
  int sequence = 0;
  std::vector<std::int64_t> asked;
  for (; now_ms < 40'000; now_ms += 100) {
    if (ranks.round(Wanted::silent, now_ms, ++sequence, 8)) asked.push_back(now_ms);
  }
  const std::int64_t last = asked.back();
  EXPECT_GE(last - asked.at(asked.size() - 2), 8'000);
  EXPECT_FALSE(ranks.round(Wanted::silent, last + 1'000, ++sequence, 8));
  EXPECT_TRUE(ranks.round(Wanted::stalled, last + 1'100, ++sequence, 8));
  int questions = 0;
  for (now_ms = last + 1'200; now_ms < last + 31'200; now_ms += 100) {
    questions += ranks.round(Wanted::stalled, now_ms, ++sequence, 8) ? 1 : 0;
  }
  EXPECT_LE(questions, 12);
}

}  // namespace
