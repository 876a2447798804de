// Runs in turn: each cell's change with its interval, and where none may be told.
#include "reports/paired_times.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample.h"

namespace {

using fixtures::FakeStore;
using harness::CaseRecord;
using harness::history::TimeVerdict;
using reports::PairedCell;
using testing::HasSubstr;

class PairedTimes : public testing::Test {
 protected:
  harness::RunRecord add_run(double step_ms, double control_ms) {
    const auto id = static_cast<std::int64_t>(store_.run_rows.size() + 1);
    store_.run_rows.push_back(fixtures::sample_run(id, "run" + std::to_string(id), id));
    CaseRecord record = fixtures::sample_record(id, id, "fast");
    record.label = "fast";
    record.history_id = "fast";
    record.judgement = fixtures::passed();
    record.digest.device = device_;
    record.digest.metrics = {{harness::kControlMs, control_ms}, {harness::kStepMs, step_ms}};
    store_.case_rows.push_back(record);
    return store_.run_rows.back();
  }
  // Pairs that scatter by up to 1 %; the second program takes `ratio` times as long.
  void add_pairs(int pairs, double ratio) {
    for (int i = 0; i < pairs; ++i) {
      const double noise = 1.0 + 0.005 * std::sin(1.0 + i);
      const auto before = add_run(100.0, 10.0);
      pairs_.emplace_back(before, add_run(100.0 * ratio * noise, 10.0 * noise));
    }
  }
  [[nodiscard]] PairedCell cell() const {
    const auto cells = reports::pair_times(store_, pairs_);
    EXPECT_EQ(cells.size(), 1U);
    return cells.at(0);
  }

  FakeStore store_;
  std::vector<reports::RunPair> pairs_;
  std::string device_ = "cpu";
};

TEST_F(PairedTimes, ASlowerProgramIsToldWithTheIntervalAndItsControl) {
  add_pairs(8, 1.05);
  EXPECT_EQ(cell().verdict, TimeVerdict::regressed);
  EXPECT_NEAR(cell().step.change, std::log(1.05), 0.005);
  EXPECT_NEAR(cell().control.change, 0.0, 0.005);
  EXPECT_TRUE(reports::any_slower({cell()}));
  EXPECT_THAT(reports::paired_text({cell()}), HasSubstr("| fast | 8 | 100 ms | 10"));
  EXPECT_THAT(reports::paired_text({cell()}), HasSubstr("| REGRESSED |"));
}

TEST_F(PairedTimes, AFasterOneAndAnEqualOne) {
  add_pairs(8, 0.95);
  EXPECT_EQ(cell().verdict, TimeVerdict::improved);
  EXPECT_FALSE(reports::any_slower({cell()}));
  pairs_.clear();
  add_pairs(12, 1.0);
  EXPECT_EQ(cell().verdict, TimeVerdict::same);
}

TEST_F(PairedTimes, ASureChangeThatIsTooSmallToMatterIsTheSame) {
  add_pairs(8, 1.008);
  EXPECT_GT(cell().step.low, 0.0);
  EXPECT_EQ(cell().verdict, TimeVerdict::same);
}

// A neighbour that slows whole launches, now of one side and now of the other, moves step and control alike.
TEST_F(PairedTimes, LaunchesThatScatterTooMuchExcludeNothing) {
  for (int i = 0; i < 8; ++i) {
    const double slowed = i % 2 == 0 ? 2.0 : 1.0;
    const auto before = add_run(100.0 * slowed, 10.0 * slowed);
    pairs_.emplace_back(before, add_run(110.0 * (3.0 - slowed), 10.0 * (3.0 - slowed)));
  }
  EXPECT_EQ(cell().verdict, TimeVerdict::unknown);
  EXPECT_THAT(cell().reason, HasSubstr("scatter too much"));
  EXPECT_NEAR(cell().beside.low, std::log(1.1), 1e-9);
  EXPECT_NEAR(cell().beside.high, std::log(1.1), 1e-9);
}

TEST_F(PairedTimes, FewPairsSayNothing) {
  add_pairs(7, 2.0);
  EXPECT_EQ(cell().verdict, TimeVerdict::unknown);
  EXPECT_EQ(cell().reason, "7 pairs of launches; 8 are needed");
}

TEST_F(PairedTimes, AnotherMachineOrDeviceIsNotComparable) {
  add_pairs(8, 2.0);
  const auto good = pairs_;
  pairs_[3].second.provenance.machine = {{"cpu", "another"}};
  EXPECT_EQ(cell().verdict, TimeVerdict::not_comparable);
  EXPECT_THAT(cell().reason, HasSubstr("cpu another"));
  pairs_ = good;
  device_ = "cuda";
  pairs_.front().second = add_run(1.0, 1.0);
  EXPECT_EQ(cell().verdict, TimeVerdict::not_comparable);
  EXPECT_EQ(cell().reason, "it ran on cpu, now on cuda");
}

TEST_F(PairedTimes, WhatWasNotMeasuredInBothIsNotPaired) {
  add_pairs(8, 1.0);
  for (CaseRecord& record : store_.case_rows) {
    if (record.run_id % 2 == 0) record.digest.metrics.clear();
  }
  EXPECT_TRUE(reports::pair_times(store_, pairs_).empty());
  EXPECT_THAT(reports::paired_text({}), HasSubstr("no time was judged"));
}

}  // namespace
