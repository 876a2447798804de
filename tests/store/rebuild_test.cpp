// A database that was lost comes back from the run's folder, with its verdicts and how the run ended: whole or not at all.
#include "harness/store/rebuild.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "harness/run/record/run_folder.h"
#include "harness/store/run_files.h"
#include "harness/store/sealed.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

class RebuildTest : public ::testing::Test {
 protected:
  RebuildTest() {
    run_ = test::a_run("r");
    run_.id = 17;
    run_.folder = folder_ / "run";
    run_.provenance.machine = {{"cpu", "x"}};
    run_.provenance.command = {{"set", "seed=5"}};
    planned_ = {
        test::a_case(0, 0, "ran"), test::a_case(0, 1, "skipped"), test::a_case(0, 2, "also")};
    planned_[1].skip_reason = "no GPU";
    for (const int i : {0, 2}) {
      fs::create_directories(folder_of(i));
      EventLog log(folder_of(i));
      events_ = {Event::of(0, 3, Sample{"loss", 1, std::nan("")}),
                 Event::of(kController, 2'500, Exited{0, 0})};
      log.append(events_);
      log.finish();
      hash_ = log.hash();
    }
    write_run_file(run_, planned_);
    run_.exit_code = 5;  // one case was never judged
    run_.complete = false;
    run_.ended_ms = 99'000;
    write_end_file(run_);
    log(0, test::stored(judged(Outcome::fail), 8'000));
    log(0, test::stored(judged(Outcome::pass), 9'000));
    log(0, test::stored(judged(Outcome::inconclusive), 10'000, false));
  }

  static Judgement judged(Outcome outcome) {
    Judgement judgement;
    judgement.outcome = outcome;
    judgement.reason = "because";
    judgement.verdicts.push_back(
        {"finite", Verdict::pass, "r", {{"x", std::nan(""), Real(1.0)}}, {}});
    return judgement;
  }

  [[nodiscard]] std::string folder_of(std::size_t i) const {
    return run_.folder + "/" + planned_[i].folder;
  }

  void log(std::size_t i, const StoredJudgement& judgement) const {
    log_judgement(run_, planned_[i], {{7'000, 2.75}, test::of_events(judgement, hash_)});
  }

  // Every case judged, and an end that says how.
  void end_with(Outcome outcome, int exit_code) {
    for (const std::size_t i : {0, 2}) fs::remove(folder_of(i) + "/" + kVerdictsFile);
    for (const std::size_t i : {0, 2}) log(i, test::stored(judged(outcome)));
    run_.exit_code = exit_code;
    run_.complete = true;
    write_end_file(run_);
  }

  // Nothing of it is in the database, and it can be tried again.
  void expect_refused(const std::string& why) {
    for (const char* part : {"", "-wal", "-shm"})
      fs::remove(folder_ / ("refused.db" + std::string(part)));
    const auto store = Store::open(folder_ / "refused.db", true);
    EXPECT_NE(error_of([&] { (void)rebuild_run(run_.folder, *store); }).find(why),
              std::string::npos)
        << error_of([&] { (void)rebuild_run(run_.folder, *store); });
    EXPECT_TRUE(store->runs(0, 10'000).empty());
  }

  fakes::TempFolder folder_;
  RunRecord run_;
  std::vector<CaseRecord> planned_;
  std::vector<Event> events_;
  std::string hash_;  // of the events
};

TEST_F(RebuildTest, EverythingRecordedIsBack) {
  const auto store = Store::open(folder_ / "new.db", true);
  const std::int64_t row = rebuild_run(run_.folder, *store);
  EXPECT_EQ(row, 17) << "runs stay in the order in which they began";
  const auto run = store->run_named("r");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->provenance.machine, run_.provenance.machine);
  EXPECT_EQ(run->provenance.command, run_.provenance.command);
  EXPECT_EQ(run->provenance.argv, run_.provenance.argv);
  EXPECT_EQ(run->folder, run_.folder);
  EXPECT_EQ(run->exit_code, 5);
  EXPECT_FALSE(run->complete);
  EXPECT_EQ(run->ended_ms, 99'000);
  const auto cases = store->cases(row);
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[1].skip_reason, "no GPU");
  EXPECT_EQ(cases[0].case_json, planned_[0].case_json);
  EXPECT_EQ(cases[0].started_ms, 7'000);
  EXPECT_EQ(cases[0].seconds, 2.75);
  ASSERT_EQ(cases[0].digest.metrics.size(), 1u);
  EXPECT_TRUE(std::isnan(cases[0].digest.metrics[0].second));
  EXPECT_EQ(cases[2].seconds, 2.5) << "never judged: until its last event";
}

TEST_F(RebuildTest, VerdictsAreBackAndTheSameOneReports) {
  const auto store = Store::open(folder_ / "new.db", true);
  const auto cases = store->cases(rebuild_run(run_.folder, *store));
  ASSERT_TRUE(cases[0].judgement);
  EXPECT_EQ(cases[0].judgement->outcome, Outcome::pass);
  EXPECT_EQ(cases[0].judgement->reason, "because");
  EXPECT_EQ(cases[0].judgements, 3);
  EXPECT_EQ(cases[0].judged_without, 1);
  EXPECT_TRUE(std::isnan(cases[0].judgement->verdicts.at(0).measured.at(0).value));
  EXPECT_FALSE(cases[2].judgement);
}

TEST_F(RebuildTest, AFolderWithoutAnEndIsOfARunThatWasKilled) {
  fs::remove(run_.folder + "/" + kEndFile);
  const auto store = Store::open(folder_ / "new.db", true);
  (void)rebuild_run(run_.folder, *store);
  EXPECT_EQ(store->last_run()->exit_code, -1);
  EXPECT_FALSE(store->last_run()->complete);
}

TEST_F(RebuildTest, TwiceIsRefused) {
  const auto store = Store::open(folder_ / "new.db", true);
  (void)rebuild_run(run_.folder, *store);
  EXPECT_NE(error_of([&] { (void)rebuild_run(run_.folder, *store); }).find("already: r"),
            std::string::npos);
  EXPECT_EQ(store->runs(0, 10'000).size(), 1u);
}

TEST_F(RebuildTest, ANumberThatIsTakenIsNotTakenAway) {
  const auto store = Store::open(folder_ / "new.db", true);
  while (store->begin_run(test::a_run("other" + std::to_string(store->runs(0, 10'000).size()))) <
         17) {
  }
  EXPECT_EQ(rebuild_run(run_.folder, *store), 18);
  EXPECT_EQ(store->last_run()->name, "r");
}

TEST_F(RebuildTest, AnAlteredLogIsNamedAndNothingIsAdded) {
  for (const int i : {0, 2}) {
    std::ofstream(folder_of(i) + "/" + kEventsFile) << encode_event(events_[0]) << "\n";
  }
  expect_refused(folder_of(0) + "/" + kEventsFile);
  expect_refused(folder_of(2) + "/" + kEventsFile);
  for (const int i : {0, 2}) fs::remove(folder_of(i) + "/" + kEventsFile);
  const auto store = Store::open(folder_ / "new.db", true);
  EXPECT_NO_THROW((void)rebuild_run(run_.folder, *store)) << "what is packed is whole";
}

TEST_F(RebuildTest, AlteredVerdictsAreRefused) {
  const std::string path = folder_of(0) + "/" + kVerdictsFile;
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.replace(text.find("FAIL"), 4, "PASS");
  std::ofstream(path) << text;
  expect_refused(path + ":1: not what its hash says: altered");
}

TEST_F(RebuildTest, AVerdictThatWasTakenOutIsSeen) {
  const std::string path = folder_of(0) + "/" + kVerdictsFile;
  std::ifstream file(path);
  std::string first;
  std::string second;
  std::string third;
  std::getline(file, first);
  std::getline(file, second);
  std::getline(file, third);
  std::ofstream(path) << first << "\n" << third << "\n";
  expect_refused(path + ":2: not what its hash says: altered");
}

TEST_F(RebuildTest, AnAlteredEndIsRefused) {
  std::ofstream(run_.folder + "/" + kEndFile)
      << R"({"hash":"x","says":{"exit_code":0,"complete":true,"ended_ms":1}})";
  expect_refused(std::string(kEndFile) + ": not what its hash says");
}

TEST_F(RebuildTest, AFolderOutsideOfTheRunIsRefused) {
  for (const std::string& folder : {std::string("../.."),
                                    std::string("/etc"),
                                    std::string("a/../../b"),
                                    std::string(),
                                    std::string(".."),
                                    std::string("a/.."),
                                    std::string("a\0b", 3)}) {
    planned_[2].folder = folder;
    write_run_file(run_, planned_);
    expect_refused("wanted one inside of the run's folder");
  }
}

TEST_F(RebuildTest, MalformedRunFileIsNamed) {
  for (const char* text : {"",
                           "{",
                           "{}",
                           "[]",
                           R"({"name":1})",
                           R"({"name":"r","started_ms":1e300})",
                           R"({"name":"r","started_ms":18446744073709551615})"}) {
    std::ofstream(run_.folder + "/" + kRunFile) << text;
    expect_refused(kRunFile);
  }
}

// ---- what does not belong together ---------------------------------------------------------------------------------

// The files of another run of the same cases, which passed.
class SwappedTest : public RebuildTest {
 protected:
  SwappedTest() {
    end_with(Outcome::fail, 1);
    other_ = run_;
    other_.name = "other";
    other_.folder = folder_ / "other";
    fs::copy(run_.folder, other_.folder, fs::copy_options::recursive);
    for (const std::size_t i : {0, 2}) {
      const std::string at = other_.folder + "/" + planned_[i].folder;
      for (const char* file : {kVerdictsFile, kPackedEventsFile, kEventsHashFile}) {
        fs::remove(at + "/" + file);
      }
      EventLog log(at);
      log.append(std::vector{Event::of(0, 3, Sample{"loss", 1, 1.0})});
      log.finish();
      log_judgement(
          other_,
          planned_[i],
          {{7'000, 2.75}, test::of_events(test::stored(judged(Outcome::pass)), log.hash())});
    }
    write_run_file(other_, planned_);
    other_.exit_code = 0;
    write_end_file(other_);
  }

  void copy(const std::string& name) const {
    fs::copy_file(
        other_.folder + "/" + name, run_.folder + "/" + name, fs::copy_options::overwrite_existing);
  }
  [[nodiscard]] std::string in_case(std::size_t i, const char* file) const {
    return planned_[i].folder + "/" + file;
  }

  RunRecord other_;
};

TEST_F(SwappedTest, TheRunsThemselvesComeBack) {
  const auto store = Store::open(folder_ / "new.db", true);
  EXPECT_NO_THROW((void)rebuild_run(run_.folder, *store));
  EXPECT_NO_THROW((void)rebuild_run(other_.folder, *store));
}

TEST_F(SwappedTest, JudgementsOfAnotherRunAreRefused) {
  for (const std::size_t i : {0, 2}) copy(in_case(i, kVerdictsFile));
  expect_refused(in_case(0, kVerdictsFile) + ":1: a judgement of another run: found other");
  const auto store = Store::open(folder_ / "new.db", true);
  EXPECT_THROW((void)rebuild_run(run_.folder, *store), nsa::NotAsRecorded);
}

TEST_F(SwappedTest, JudgementsOfAnotherCaseAreRefused) {
  fs::copy_file(folder_of(0) + "/" + kVerdictsFile,
                folder_of(2) + "/" + kVerdictsFile,
                fs::copy_options::overwrite_existing);
  expect_refused(in_case(2, kVerdictsFile) + ":1: a judgement of another case");
}

TEST_F(SwappedTest, EventsThatWereNotJudgedAreRefused) {
  for (const char* file : {kPackedEventsFile, kEventsHashFile}) copy(in_case(0, file));
  expect_refused(in_case(0, kVerdictsFile) + ":1: judged other events");
}

TEST_F(SwappedTest, EventsThatAreGoneAreMissed) {
  fs::remove(folder_of(2) + "/" + kPackedEventsFile);
  expect_refused(in_case(2, kVerdictsFile) +
                 ":1: judged other events than those beside it: found no events");
}

TEST_F(SwappedTest, TheEndOfAnotherRunIsRefused) {
  copy(kEndFile);
  expect_refused(std::string(kEndFile) + ": the end of another run: found other");
}

TEST_F(SwappedTest, AnotherPlanThanTheOneThatEndedIsRefused) {
  planned_[1].skip_reason = "another";
  write_run_file(run_, planned_);
  expect_refused(std::string(kRunFile) + ": altered");
}

// Also where just that it binds was altered.
TEST_F(SwappedTest, APlanThatLostItsBindingIsRefused) {
  const std::string path = run_.folder + "/" + kRunFile;
  std::string text = nsa::read_file(path, 1 << 20);
  text.replace(text.find("\"binds\""), 7, "\"bhnds\"");
  std::ofstream(path) << text;
  expect_refused(std::string(kRunFile) + ": altered");
}

TEST_F(SwappedTest, TheExitCodeHoldsTheOutcomes) {
  end_with(Outcome::pass, 1);
  expect_refused(std::string(kEndFile) +
                 ": found exit code 1, but the judgements of its cases give 0");
  end_with(Outcome::fail, 1);
  fs::remove(folder_of(2) + "/" + kVerdictsFile);
  expect_refused("says that the run is complete, but " + planned_[2].folder + " has no judgement");
}

// As older versions wrote them: without a word of what they are of.
TEST_F(SwappedTest, UnboundJudgementsBelongToUnboundRuns) {
  const auto strip = [](const std::string& path, const std::vector<const char*>& keys) {
    std::ifstream file(path);
    std::string line;
    std::string text;
    std::string before;
    std::string hash;
    while (std::getline(file, line)) {
      nlohmann::json says = open_sealed_line(line, {1 << 20, 32}, path, before);
      for (const char* key : keys) says.erase(key);
      text += sealed_line(says, hash) + "\n";
      hash = nlohmann::json::parse(text.substr(text.rfind("{\"hash")))["hash"];
    }
    std::ofstream(path) << text;
  };
  for (const std::size_t i : {0, 2}) {
    strip(folder_of(i) + "/" + kVerdictsFile, {"run", "case", "position", "events"});
  }
  expect_refused(in_case(0, kVerdictsFile) + ":1: a judgement that does not say what it is of");
  strip(run_.folder + "/" + kEndFile, {"run", "plan"});
  expect_refused(std::string(kEndFile) + ": the end of another run");
  std::ifstream file(run_.folder + "/" + kRunFile);
  auto plan = nlohmann::json::parse(file);
  plan.erase("binds");
  std::ofstream(run_.folder + "/" + kRunFile) << plan;
  const auto store = Store::open(folder_ / "new.db", true);
  (void)rebuild_run(run_.folder, *store);
  EXPECT_FALSE(store->cases(17).at(0).events_hash);
  // Outcomes are held against the end all the same.
  nlohmann::json end = {{"exit_code", 0}, {"complete", true}, {"ended_ms", 99'000}};
  std::ofstream(run_.folder + "/" + kEndFile) << sealed_line(end, "") << "\n";
  expect_refused(std::string(kEndFile) + ": found exit code 0");
}

// ---- the verdicts' file --------------------------------------------------------------------------------------------

TEST_F(RebuildTest, HalfALineOfAKilledProcessIsTakenAwayByTheNextJudgement) {
  const std::string path = folder_of(0) + "/" + kVerdictsFile;
  std::ofstream(path, std::ios::app) << R"({"hash":"12)";
  EXPECT_EQ(read_verdict_log(run_, planned_[0]).size(), 3u);
  log(0, test::stored(judged(Outcome::oom)));
  const auto all = read_verdict_log(run_, planned_[0]);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all.back().judged.judgement.outcome, Outcome::oom);
}

TEST_F(RebuildTest, WhatIsNoUtf8IsKeptAsFarAsItCanBe) {
  Judgement judgement = judged(Outcome::fail);
  judgement.reason = "a\xff\xfe";
  log(2, test::stored(judgement));
  EXPECT_EQ(read_verdict_log(run_, planned_[2]).at(0).judged.judgement.reason.substr(0, 1), "a");
}

}  // namespace
}  // namespace harness
