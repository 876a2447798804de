// How often a timed case is launched in one night.
#include "harness/cli/nightly/timed_cells.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace {

using harness::Case;
using harness::cli::TimedCells;

class TimedCellsTest : public testing::Test {
 protected:
  TimedCellsTest() : store_(harness::Store::open(path_, true)) {
    for (int i = 0; i < 10; ++i) add_night(100.0);
    timed_.scenario.kind = "throughput";
  }

  void add_night(double step_ms) {
    const std::int64_t run = store_->begin_run(harness::test::a_run(std::to_string(++nights_)));
    for (int i = 0; i < 8; ++i) {
      const std::int64_t row = store_->plan_case(harness::test::a_case(run, i, "cell"));
      harness::Digest digest;
      digest.recorded = true;
      digest.metrics = {{harness::kControlMs, 10.0 * noise()},
                        {harness::kStepMs, step_ms * noise()}};
      store_->begin_case(row, 1);
      store_->finish_case(row, 1.0, digest);
      store_->add_judgement(row, harness::test::stored(harness::Outcome::pass));
    }
    cell_ = store_->cases(run).front().history_id;
  }
  double noise() { return 1.0 + 0.01 * std::normal_distribution<>()(random_); }

  [[nodiscard]] TimedCells cells(const std::vector<Case>& cases) const {
    return {path_, cases, std::vector<std::string>(cases.size(), cell_)};
  }

  fakes::TempFolder folder_;
  std::string path_ = folder_ / "nights.db";
  std::unique_ptr<harness::Store> store_;
  std::mt19937 random_{5};
  int nights_ = 0;
  std::string cell_;
  Case timed_;
};

TEST_F(TimedCellsTest, EightLaunchesAndEightMoreWhereTheyLookDifferent) {
  add_night(100.0);
  EXPECT_TRUE(cells({timed_}).again(0, 1));
  EXPECT_TRUE(cells({timed_}).again(0, 7));
  EXPECT_FALSE(cells({timed_}).again(0, 8));
  add_night(107.0);
  EXPECT_TRUE(cells({timed_}).again(0, 8));
  EXPECT_TRUE(cells({timed_}).again(0, 15));
  EXPECT_FALSE(cells({timed_}).again(0, 16));
}

TEST_F(TimedCellsTest, WhatIsNotTimedRunsOnce) {
  Case planted = timed_;
  planted.scenario.fault = harness::FaultRequest{};
  Case other;
  other.scenario.kind = "training";
  std::vector<Case> cases = {planted, other};
  cases.resize(2 + 13, timed_);
  EXPECT_FALSE(cells(cases).again(0, 1));
  EXPECT_FALSE(cells(cases).again(1, 1));
  EXPECT_TRUE(cells(cases).again(2 + 11, 1));
  EXPECT_FALSE(cells(cases).again(2 + 12, 1)) << "twelve cells a night";
}

}  // namespace
