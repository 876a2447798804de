// Two databases into one: everything that is read of a run is the same afterwards.
#include "harness/store/merge.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/store/maintain.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

class Merge : public ::testing::Test {
 protected:
  // Three cases a run: one passes, one fails with a finding, one was never judged.
  void write(const std::string& file, const std::vector<std::string>& names) {
    const auto store = Store::open(folder_ / file, true);
    for (const std::string& name : names) {
      const std::int64_t run = store->begin_run(test::a_run(name));
      for (int i = 0; i < 3; ++i) {
        const std::int64_t row = store->plan_case(test::a_case(run, i, "case" + std::to_string(i)));
        if (i == 2) continue;
        Digest digest;
        digest.recorded = true;
        digest.device = name;
        digest.metrics = {{"loss", std::nan("")}, {"operators", 7.0 + i}};
        store->begin_case(row, 1);
        store->finish_case(row, 2.5, digest);
        store->add_judgement(row, judged(i == 1));
      }
      store->finish_run(run, 1, true, 9'000);
    }
    store->accept({"cell", 1, 7, "why of " + file});
  }
  static StoredJudgement judged(bool fails) {
    Judgement judgement;
    judgement.outcome = fails ? Outcome::fail : Outcome::pass;
    judgement.reason = "because";
    judgement.verdicts.push_back(
        {"finite", fails ? Verdict::fail : Verdict::pass, "r", {{"x", 1.0, Real(2.0)}}, {}});
    if (!fails) return test::stored(judgement);
    Finding finding;
    finding.code = "GRAD.MISSING";
    judgement.verdicts.front().findings = {finding};
    judgement.findings = {finding};
    return test::stored(judgement);
  }
  [[nodiscard]] static nlohmann::json judgement_of(const CaseRecord& record) {
    if (!record.judgement) return {};
    auto verdicts = nlohmann::json::array();
    for (const CheckResult& one : record.judgement->verdicts) {
      verdicts.push_back({one.check, one.reason, one.measured.size(), one.findings.size()});
    }
    return {record.judgement->reason, record.judgement->findings.size(), verdicts};
  }

  fakes::TempFolder folder_;
};

TEST_F(Merge, NothingThatIsReadOfARunChanges) {
  write("a.db", {"one"});
  write("b.db", {"one", "two"});
  const Merged merged = merge_database(folder_ / "a.db", folder_ / "b.db", {});
  EXPECT_EQ(merged.added, 1);
  EXPECT_EQ(merged.known, 1) << "a run of this name was there";
  EXPECT_TRUE(check_database(folder_ / "a.db", {}).empty());
  const auto a = Store::open_read_only(folder_ / "a.db");
  const auto b = Store::open_read_only(folder_ / "b.db");
  const RunRecord theirs = *b->run_named("two");
  const RunRecord ours = *a->run_named("two");
  EXPECT_EQ(ours.provenance.environment, theirs.provenance.environment);
  EXPECT_EQ(ours.complete, theirs.complete);
  const auto expected = b->cases(theirs.id);
  const auto found = a->cases(ours.id);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].history_id, expected[i].history_id);
    EXPECT_EQ(found[i].case_json, expected[i].case_json);
    EXPECT_EQ(found[i].digest.metrics.size(), expected[i].digest.metrics.size());
    EXPECT_EQ(digest_text(found[i].digest), digest_text(expected[i].digest));
    EXPECT_EQ(judgement_of(found[i]), judgement_of(expected[i]));
  }
  EXPECT_EQ(a->acceptances("cell").size(), 1U) << "that of b.db is of its run `one`";
  EXPECT_EQ(merge_database(folder_ / "a.db", folder_ / "b.db", {}).added, 0) << "a second time";
}

TEST_F(Merge, WhatIsNoDatabaseChangesNothing) {
  write("a.db", {"one"});
  folder_.write("text.db", "hello");
  EXPECT_THROW((void)merge_database(folder_ / "a.db", folder_ / "text.db", {}), nsa::Error);
  EXPECT_THROW((void)merge_database(folder_ / "a.db", folder_ / "none.db", {}), nsa::Error);
  EXPECT_THROW((void)merge_database(folder_ / "a.db", folder_ / "a.db", {}), nsa::Error);
  EXPECT_EQ(Store::open_read_only(folder_ / "a.db")->last_run()->name, "one");
}

// One transaction a run: nobody else waits for all of them, and what failed in between keeps what was added before.
TEST_F(Merge, WhereItFailsInBetweenTheRunsBeforeAreThereWholeAndTheSourceIsNamed) {
  write("b.db", {"one", "two", "three"});
  (void)Store::open(folder_ / "a.db", true);
  {
    SQLite::Database a(folder_ / "a.db", SQLite::OPEN_READWRITE);
    a.exec(
        "CREATE TRIGGER refuse BEFORE INSERT ON digest WHEN (SELECT count(*) FROM run) = 3 BEGIN "
        "SELECT raise(ABORT, 'no more room'); END");
  }
  const std::string error =
      error_of([&] { (void)merge_database(folder_ / "a.db", folder_ / "b.db", {}); });
  EXPECT_THAT(error, testing::StartsWith(folder_ / "b.db"));
  EXPECT_THAT(error, testing::HasSubstr("after 2 of 3 runs were added to " + (folder_ / "a.db")));
  EXPECT_THAT(error, testing::HasSubstr("no more room"));
  const auto a = Store::open_read_only(folder_ / "a.db");
  ASSERT_EQ(a->runs(0, 1'000'000).size(), 2U);
  EXPECT_EQ(a->cases(a->run_named("two")->id).size(), 3U);
  EXPECT_TRUE(check_database(folder_ / "a.db", {}).empty());
}

TEST_F(Merge, AnExportHasTheRunsThatWereAskedForAndNoOthers) {
  write("b.db", {"one", "two", "three"});
  const std::vector<std::string> names = {"three", "one"};
  export_runs(folder_ / "b.db", folder_ / "some.db", names, {});
  EXPECT_TRUE(check_database(folder_ / "some.db", {}).empty());
  const auto some = Store::open_read_only(folder_ / "some.db");
  const auto b = Store::open_read_only(folder_ / "b.db");
  EXPECT_FALSE(some->run_named("two"));
  for (const std::string& name : names) {
    const auto expected = b->cases(b->run_named(name)->id);
    const auto found = some->cases(some->run_named(name)->id);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].case_json, expected[i].case_json);
      EXPECT_EQ(digest_text(found[i].digest), digest_text(expected[i].digest));
      EXPECT_EQ(judgement_of(found[i]), judgement_of(expected[i]));
    }
  }
  EXPECT_EQ(some->acceptances("cell").size(), 1U);
}

TEST_F(Merge, AnExportThatIsRefusedLeavesNothing) {
  write("b.db", {"one"});
  const std::vector<std::string> names = {"one", "no such run"};
  EXPECT_THROW(export_runs(folder_ / "b.db", folder_ / "new.db", names, {}), nsa::Error);
  EXPECT_THROW(export_runs(folder_ / "b.db", folder_ / "new.db", {}, {}), nsa::Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new.db"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().filename().string().substr(0, 1), ".") << "a draft is left";
  }
  EXPECT_THROW(export_runs(folder_ / "b.db", folder_ / "b.db", std::vector<std::string>{"one"}, {}),
               nsa::Error);
  EXPECT_EQ(Store::open_read_only(folder_ / "b.db")->last_run()->name, "one");
}

}  // namespace
}  // namespace harness
