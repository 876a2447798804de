// What is deleted and what stays.
#include "harness/store/prune.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "harness/store/run_files.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDayMs = std::int64_t{24} * 3'600'000;
constexpr std::int64_t kNowMs = 1'000 * kDayMs;

class PruneTest : public ::testing::Test {
 protected:
  // A run so many days ago with one case that was judged so, and five bytes of tensors.
  RunRecord add(const std::string& name, int days_ago, std::optional<Outcome> outcome) {
    RunRecord run = test::a_run(name);
    run.folder = folder_ / name;
    run.started_ms = kNowMs - days_ago * kDayMs;
    run.provenance.command.emplace_back("verb", verb_);
    run.id = store_->begin_run(run);
    CaseRecord record = test::a_case(run.id, 0, "fake");
    fs::create_directories(run.folder);
    write_run_file(run, {&record, 1});
    const std::int64_t row = store_->plan_case(record);
    store_->begin_case(row, run.started_ms);
    Digest digest;
    digest.recorded = true;
    digest.files = {{0, "rank_0/t.safetensors", 5, "beef"}};
    store_->finish_case(row, 1.0, digest);
    folder_.write(name + "/" + record.folder + "/rank_0/t.safetensors", "12345");
    folder_.write(name + "/" + record.folder + "/events.jsonl.zst", "12345678");
    if (outcome) store_->add_judgement(row, test::stored(*outcome));
    store_->finish_run(run.id, 0, true, run.started_ms + 1);
    return run;
  }

  Pruned prune(int keep_days, int files) {
    return prune_runs(*store_, {kNowMs, kNowMs - keep_days * kDayMs, files, ""});
  }
  [[nodiscard]] bool has_tensors(const std::string& name) const {
    return fs::exists(folder_ / (name + "/cases/0/rank_0/t.safetensors"));
  }
  [[nodiscard]] bool has_log(const std::string& name) const {
    return fs::exists(folder_ / (name + "/cases/0/events.jsonl.zst"));
  }

  std::string verb_ = "run";  // of runs that are added
  fakes::TempFolder folder_;
  std::string path_ = folder_ / "runs.db";
  std::unique_ptr<Store> store_ = Store::open(path_, true);
};

TEST_F(PruneTest, OldFoldersGoAndRowsStay) {
  add("old", 100, Outcome::pass);
  add("young", 80, Outcome::pass);
  const Pruned pruned = prune(90, 10);
  EXPECT_EQ(pruned.dropped, std::vector<std::string>{"old"});
  EXPECT_GE(pruned.freed_bytes, 13);
  EXPECT_FALSE(fs::exists(folder_ / "old"));
  EXPECT_TRUE(has_log("young"));
  const auto old = store_->run_named("old");
  EXPECT_EQ(old->pruned_ms, kNowMs);
  EXPECT_EQ(store_->cases(old->id).at(0).judgement->outcome, Outcome::pass);
  EXPECT_TRUE(prune(90, 10).dropped.empty()) << "once is enough";
}

// A night shares its database with the runs of the day, and prunes nights alone.
TEST_F(PruneTest, ARuleForOneVerbLeavesTheOthers) {
  add("day", 100, Outcome::fail);
  add("young_day", 5, Outcome::fail);
  verb_ = "nightly";
  for (const char* name : {"old_night", "night"})
    add(name, name[0] == 'o' ? 100 : 4, Outcome::fail);
  const Pruned pruned = prune_runs(*store_, {kNowMs, kNowMs - 90 * kDayMs, 0, "nightly"});
  EXPECT_EQ(pruned.dropped, std::vector<std::string>{"old_night"});
  EXPECT_EQ(pruned.thinned, std::vector<std::string>{"night"});
  EXPECT_TRUE(has_tensors("day") && has_tensors("young_day"));
}

TEST_F(PruneTest, TensorsStayWithTheNewestRuns) {
  for (const char* name : {"a", "b", "c", "d"}) add(name, 5, Outcome::fail);
  const Pruned pruned = prune(90, 2);
  EXPECT_EQ(pruned.thinned, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(pruned.freed_bytes, 10);
  EXPECT_FALSE(has_tensors("a") || has_tensors("b"));
  EXPECT_TRUE(has_tensors("c") && has_tensors("d"));
  EXPECT_TRUE(has_log("a"));
}

TEST_F(PruneTest, RunsOfAnotherMachineTakeNoPlaceAmongTheNewest) {
  add("here", 5, Outcome::fail);
  for (const char* name : {"x", "y", "z"}) {
    add(name, 2, Outcome::fail);
    fs::remove_all(folder_ / name);  // rows that a merge brought: the folder is elsewhere
  }
  prune(90, 2);
  EXPECT_TRUE(has_tensors("here"));
}

TEST_F(PruneTest, WhatWasNeverJudgedStays) {
  add("unjudged", 100, std::nullopt);
  add("unjudged_too", 5, std::nullopt);
  const Pruned pruned = prune(90, 0);
  EXPECT_TRUE(pruned.dropped.empty() && pruned.thinned.empty());
  EXPECT_EQ(pruned.left.size(), 2u);
  EXPECT_TRUE(has_tensors("unjudged") && has_tensors("unjudged_too"));
}

TEST_F(PruneTest, ARunThatMayBeRunningStays) {
  const RunRecord run = add("running", 1, Outcome::pass);
  store_->finish_run(run.id, -1, false, 0);
  EXPECT_EQ(prune(1, 0).left.size(), 1u);
  EXPECT_TRUE(has_tensors("running"));
}

TEST_F(PruneTest, AFolderThatIsNotTheRunsStays) {
  add("old", 100, Outcome::pass);
  RunRecord liar = test::a_run("liar");  // a database from elsewhere that names a folder of mine
  liar.folder = folder_ / "precious";
  liar.started_ms = kNowMs - 100 * kDayMs;
  const std::string file = folder_.write("precious/thesis.txt", "x");
  store_->finish_run(store_->begin_run(liar), 0, true, 1);
  RunRecord other = liar;
  other.name = "other";
  other.folder = folder_ / "old";
  store_->finish_run(store_->begin_run(other), 0, true, 1);
  const Pruned pruned = prune(90, 0);
  EXPECT_EQ(pruned.dropped, std::vector<std::string>{"old"});
  EXPECT_EQ(pruned.left.size(), 2u);
  EXPECT_TRUE(fs::exists(file));
}

}  // namespace
}  // namespace harness
