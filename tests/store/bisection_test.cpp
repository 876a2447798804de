// What a run's rows say of a bisection: the answer, whether it was expected, what counts for the exit code.
#include "harness/store/bisection.h"

#include <gtest/gtest.h>

#include "harness/scenario/exit_code.h"
#include "tests/scenario/valid_case.h"

namespace harness {
namespace {

using State = BisectProgress::State;
using Layers = std::vector<std::string>;

class BisectionTest : public ::testing::Test {
 protected:
  BisectionTest() : base_(test::valid_case()) {
    base_.scenario.model.n_layers = 4;
    base_.scenario.bisect = {"parallel.checkpoint.layers", {"0", "1", "2", "3"}};
  }

  void add(const Layers& layers, Outcome outcome, const std::string& code = "CKPT.GRADIENT") {
    CaseRecord record;
    const Case trial = trial_of(base_, layers);
    record.run_id = 1;
    record.label = trial.label();
    record.case_json = case_to_json(trial);
    if (outcome == Outcome::skip) {
      record.skip_reason = "needs 2 GPUs";
    } else {
      record.judgement = Judgement{};
      record.judgement->outcome = outcome;
      if (outcome != Outcome::pass) {
        record.judgement->findings.emplace_back();
        record.judgement->findings[0].code = code;
        record.judgement->findings[0].role = Role::initiating;
        record.judgement->findings[0].site.layers = {2};
        record.judgement->findings[0].site.branch = "sel";
      }
    }
    records_.push_back(record);
  }

  // 1 and 2 break together.
  void add_whole_path() {
    std::vector<BisectTrial> trials;
    for (auto progress = bisect_progress(base_.scenario.bisect.candidates, trials);
         progress.state == State::searching;
         progress = bisect_progress(base_.scenario.bisect.candidates, trials)) {
      const Layers& next = progress.next;
      const bool fails = std::count(next.begin(), next.end(), "1") == 1 &&
                         std::count(next.begin(), next.end(), "2") == 1;
      trials.push_back({next, fails ? Outcome::fail : Outcome::pass});
      add(next, trials.back().outcome);
    }
  }

  void expect_of_it(Outcome outcome, const std::string& code, const std::vector<int>& layers) {
    base_.scenario.expect = Expectation{outcome, code, {}};
    base_.scenario.expect->site.layers = layers;
  }

  [[nodiscard]] int exit() const { return exit_code(outcomes_that_count(records_), false); }

  Case base_;
  std::vector<CaseRecord> records_;
};

TEST_F(BisectionTest, TheAnswerIsComputedFromTheRows) {
  add_whole_path();
  const auto all = bisections_of(records_);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].label, base_.label());
  EXPECT_EQ(all[0].over, "parallel.checkpoint.layers");
  EXPECT_EQ(all[0].trials.size(), records_.size());
  EXPECT_EQ(all[0].progress.state, State::minimal);
  EXPECT_EQ(all[0].progress.minimal, (Layers{"1", "2"}));
  EXPECT_EQ(all[0].outcome(), std::nullopt);
  EXPECT_EQ(outcomes_that_count(records_).size(), records_.size());
  EXPECT_EQ(exit(), kExitFailed);
}

TEST_F(BisectionTest, WhatIsExpectedIsTheAnswerNotATrial) {
  expect_of_it(Outcome::fail, "CKPT.GRADIENT", {1, 2});
  add_whole_path();
  EXPECT_EQ(bisections_of(records_)[0].missed, "");
  EXPECT_EQ(outcomes_that_count(records_), std::vector<Outcome>{Outcome::pass});
  EXPECT_EQ(exit(), kExitPass);
  for (const auto& [outcome, code, layers] :
       std::vector<std::tuple<Outcome, const char*, std::vector<int>>>{
           {Outcome::fail, "CKPT.GRADIENT", {2}},
           {Outcome::fail, "CKPT.GRADIENT", {0, 1, 2, 3}},
           {Outcome::fail, "CKPT.DTYPE", {1, 2}},
           {Outcome::crash, "CKPT.GRADIENT", {1, 2}},
           {Outcome::pass, "", {}}}) {
    records_.clear();
    expect_of_it(outcome, code, layers);
    add_whole_path();
    EXPECT_NE(bisections_of(records_)[0].missed, "") << code;
    EXPECT_EQ(exit(), kExitFailed) << code;
  }
}

TEST_F(BisectionTest, NothingThatBreaksIsAPassOrMissed) {
  add(base_.scenario.bisect.candidates, Outcome::pass);
  EXPECT_EQ(bisections_of(records_)[0].progress.state, State::nothing_breaks);
  EXPECT_EQ(exit(), kExitPass);
  records_.clear();
  expect_of_it(Outcome::fail, "CKPT.GRADIENT", {1, 2});
  add(base_.scenario.bisect.candidates, Outcome::pass);
  EXPECT_EQ(exit(), kExitFailed);
}

TEST_F(BisectionTest, BrokenWithoutAnyIsNeverWhatWasExpected) {
  expect_of_it(Outcome::fail, "CKPT.GRADIENT", {});
  add(base_.scenario.bisect.candidates, Outcome::fail);
  add({}, Outcome::fail);
  EXPECT_EQ(bisections_of(records_)[0].progress.state, State::broken_without_any);
  EXPECT_EQ(exit(), kExitFailed);
}

TEST_F(BisectionTest, WithoutAnAnswerItSaysWhy) {
  expect_of_it(Outcome::fail, "CKPT.GRADIENT", {1, 2});
  const std::vector<std::pair<Outcome, int>> table = {{Outcome::error, kExitError},
                                                      {Outcome::inconclusive, kExitInconclusive},
                                                      {Outcome::skip, kExitNothing}};
  for (const auto& [outcome, code] : table) {
    records_.clear();
    add(base_.scenario.bisect.candidates, outcome);
    EXPECT_EQ(bisections_of(records_)[0].progress.state, State::inconclusive);
    EXPECT_EQ(exit(), code);
  }
  records_.clear();
  add(base_.scenario.bisect.candidates, Outcome::fail);
  add({}, Outcome::pass);
  records_.back().judgement.reset();  // planned, never run
  EXPECT_EQ(bisections_of(records_)[0].progress.state, State::searching);
  EXPECT_EQ(exit(), kExitInconclusive);
}

TEST_F(BisectionTest, EveryPointOfTheAxesAndEveryRunHasItsOwn) {
  add(base_.scenario.bisect.candidates, Outcome::pass);
  base_.point = {{"parallel.ranks", "3"}};
  base_.scenario.parallel.ranks = 3;
  add(base_.scenario.bisect.candidates, Outcome::pass);
  add(base_.scenario.bisect.candidates, Outcome::pass);
  records_.back().run_id = 2;
  CaseRecord plain;
  plain.case_json = case_to_json(test::valid_case());
  plain.judgement = Judgement{};
  records_.push_back(plain);
  const auto all = bisections_of(records_);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].label, base_.label());
  EXPECT_EQ(outcomes_that_count(records_).size(), 4u);
}

}  // namespace
}  // namespace harness
