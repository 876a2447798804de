// What earlier nights say of tonight's cases.
#include "harness/cli/nightly/past.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace {

using harness::Case;
using harness::Outcome;
using harness::cli::Past;

class PastTest : public testing::Test {
 protected:
  PastTest() : store_(harness::Store::open(path_, true)) {
    timed_.scenario.kind = "throughput";
    timed_.scenario.budget_seconds = 120.0;
  }

  // A night whose cell was launched so many times, for 5 s each.
  void add_night(std::int64_t started_ms, int launches, const std::string& option = "verb") {
    harness::RunRecord run = harness::test::a_run(std::to_string(started_ms));
    run.started_ms = started_ms;
    run.provenance.command = {{option, "yes"}};
    run.id = store_->begin_run(run);
    for (int i = 0; i < std::max(1, launches); ++i) {
      const std::int64_t row = store_->plan_case(harness::test::a_case(run.id, i, "cell"));
      if (launches > 0) store_->finish_case(row, 5.0, {});
      store_->add_judgement(row,
                            harness::test::stored(launches > 0 ? Outcome::pass : Outcome::skip));
    }
    cell_ = store_->cases(run.id).front().history_id;
  }

  fakes::TempFolder folder_;
  std::string path_ = folder_ / "nights.db";
  std::unique_ptr<harness::Store> store_;
  std::string cell_;
  Case timed_;
};

TEST_F(PastTest, ATimedCellThatWasLeftOutOnceIsNotForgotten) {
  const Past nothing(folder_ / "none.db");
  EXPECT_EQ(nothing.most_seconds(timed_, "cell"), 16 * 120.0 / 4);
  add_night(1'000, 8);
  add_night(2'000, 0);
  add_night(3'000, 0);
  const Past past(path_);
  EXPECT_EQ(past.expected_seconds(timed_, cell_), 40.0);
  EXPECT_EQ(past.most_seconds(timed_, cell_), 50.0);
  EXPECT_EQ(past.most_seconds(timed_, "another"), 16 * 120.0 / 4);
}

TEST_F(PastTest, OfACaseThatNeverRanAQuarterOfItsLimitMustBeLeftAndAllOfOneThatStandsStill) {
  Case one;
  one.scenario.budget_seconds = 60.0;
  EXPECT_EQ(Past(path_).most_seconds(one, "cell"), 15.0);
  one.scenario.expect.emplace().outcome = Outcome::hang;
  EXPECT_EQ(Past(path_).most_seconds(one, "cell"), 60.0);
}

TEST_F(PastTest, WhatTheMachineCouldDoIsForgottenWhereItWasAcceptedAsItIs) {
  add_night(2'000, 1);
  EXPECT_EQ(Past(path_).could_in(cell_), "2000");
  add_night(1'000, 1, harness::cli::kAcceptMachine);  // of another machine, merged afterwards
  EXPECT_EQ(Past(path_).could_in(cell_), "2000");
  add_night(3'000, 0, harness::cli::kAcceptMachine);
  EXPECT_EQ(Past(path_).could_in(cell_), "");
}

}  // namespace
