// One run against another: by content and not by label, exact values exactly, another machine not at all.
#include "reports/comparison.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample.h"

namespace {

using harness::CaseRecord;
using harness::Outcome;
using reports::CellChange;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CaseRecord cell(const std::string& label,
                std::optional<Outcome> outcome,
                const std::string& content = "") {
  CaseRecord record = fixtures::sample_record(1, 1, label);
  record.label = label;
  record.history_id = content.empty() ? label : content;
  record.digest.metrics.clear();
  if (outcome) {
    record.judgement = *outcome == Outcome::pass ? fixtures::passed() : fixtures::failed();
    record.judgement->outcome = *outcome;
  } else {
    record.skip_reason = "no card";
  }
  return record;
}

CellChange change(std::optional<Outcome> before, std::optional<Outcome> now) {
  const auto result = reports::compare_cells({cell("a", before)}, {cell("a", now)});
  if (result.cells.empty()) return CellChange::same;
  EXPECT_EQ(result.cells.size(), 1U);
  return result.cells.front().change;
}

TEST(Comparison, EveryPairOfOutcomesHasAName) {
  const auto none = std::optional<Outcome>();
  EXPECT_EQ(change(Outcome::pass, Outcome::pass), CellChange::same);
  EXPECT_EQ(change(Outcome::xfail, Outcome::xfail), CellChange::same);
  EXPECT_EQ(change(none, none), CellChange::same);
  EXPECT_EQ(change(Outcome::inconclusive, Outcome::inconclusive), CellChange::same);
  for (const Outcome bad : {Outcome::fail,
                            Outcome::hang,
                            Outcome::slow,
                            Outcome::crash,
                            Outcome::oom,
                            Outcome::xpass,
                            Outcome::error}) {
    EXPECT_EQ(change(Outcome::pass, bad), CellChange::newly_failing);
    EXPECT_EQ(change(none, bad), CellChange::newly_failing);
    EXPECT_EQ(change(Outcome::inconclusive, bad), CellChange::newly_failing);
    EXPECT_EQ(change(bad, bad), CellChange::still_failing);
    EXPECT_EQ(change(bad, Outcome::pass), CellChange::newly_passing);
    EXPECT_EQ(change(bad, Outcome::inconclusive), CellChange::not_decided);
    EXPECT_EQ(change(bad, none), CellChange::not_run);
  }
  EXPECT_EQ(change(Outcome::fail, Outcome::hang), CellChange::fails_otherwise);
  EXPECT_EQ(change(Outcome::pass, none), CellChange::not_run);
  EXPECT_EQ(change(none, Outcome::pass), CellChange::fresh);
  EXPECT_EQ(change(Outcome::pass, Outcome::skip), CellChange::not_run) << "cut by the budget";
}

TEST(Comparison, CellsAreMatchedByContent) {
  const auto renamed =
      reports::compare_cells({cell("old", Outcome::pass, "x")}, {cell("new", Outcome::fail, "x")});
  ASSERT_EQ(renamed.cells.size(), 1U);
  EXPECT_EQ(renamed.cells[0].change, CellChange::newly_failing);
  const auto other =
      reports::compare_cells({cell("a", Outcome::pass, "x")}, {cell("a", Outcome::pass, "y")});
  ASSERT_EQ(other.cells.size(), 1U) << "and not one that is gone and one that is new";
  EXPECT_EQ(other.cells[0].change, CellChange::other_content);
  const auto failing =
      reports::compare_cells({cell("a", Outcome::pass, "x")}, {cell("a", Outcome::fail, "y")});
  ASSERT_FALSE(failing.cells.empty());
  EXPECT_EQ(failing.cells[0].change, CellChange::newly_failing);
  EXPECT_FALSE(failing.is_calm());
}

TEST(Comparison, WhatIsOnOneSideOnlyIsGoneOrNew) {
  const std::vector<CaseRecord> both = {cell("a", Outcome::pass), cell("b", Outcome::pass)};
  const std::vector<CaseRecord> one = {cell("a", Outcome::pass)};
  const auto gone = reports::compare_cells(both, one);
  EXPECT_EQ(gone.count(CellChange::gone), 1U);
  EXPECT_FALSE(gone.is_calm());
  const auto fresh = reports::compare_cells(one, both);
  EXPECT_EQ(fresh.count(CellChange::fresh), 1U);
  EXPECT_TRUE(fresh.is_calm());
  EXPECT_EQ(fresh.in_both, 1U);
  EXPECT_THAT(reports::compare_cells({cell("c", std::nullopt)}, one).cells, testing::SizeIs(1))
      << "what never ran is not gone";
}

CaseRecord counted(double operators, double milliseconds) {
  CaseRecord record = cell("a", Outcome::pass);
  record.digest.metrics = {{"host_syncs", 3.0},
                           {"operators", operators},
                           {"peak_bytes.forward", 1e9},
                           {"step_ms", milliseconds}};
  return record;
}

TEST(Comparison, ExactValuesAreComparedExactly) {
  const auto same = reports::compare_cells({counted(100, 1.0)}, {counted(100, 50.0)});
  EXPECT_THAT(same.values, IsEmpty());
  EXPECT_EQ(same.values_compared, 3U);
  EXPECT_TRUE(same.is_calm());
  for (const double now : {101.0, 99.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto other = reports::compare_cells({counted(100, 1.0)}, {counted(now, 1.0)});
    ASSERT_EQ(other.values.size(), 1U) << now;
    EXPECT_EQ(other.values[0].metric, "operators");
    EXPECT_FALSE(other.is_calm());
  }
  CaseRecord failed = counted(500, 1.0);
  failed.judgement->outcome = Outcome::fail;
  EXPECT_EQ(reports::compare_cells({counted(100, 1.0)}, {failed}).values_compared, 0U)
      << "what failed did other work";
  CaseRecord planted = counted(500, 1.0);
  planted.case_json = R"({"scenario":{"fault":{"name":"uninit_buffer"}}})";
  EXPECT_EQ(reports::compare_cells({counted(100, 1.0)}, {planted}).values_compared, 0U)
      << "what a fault sets off is not counted";
  const auto text =
      reports::comparison_text(reports::compare_cells({counted(100, 1.0)}, {counted(101, 1.0)}));
  EXPECT_THAT(text, HasSubstr("| a | operators | 100 | 101 | +1 % |"));
  EXPECT_THAT(text, HasSubstr("no time was judged."));
}

// Two nights of the same tree over NCCL differed in peaks by the bytes of up to two steps' collectives: a thread of the process
// group lets go of their tensors when it comes to it.
TEST(Comparison, PeaksOfACaseWithCollectivesAreNoExactValues) {
  const auto values = [](double collective_bytes, double more) {
    const auto with = [&](double bytes, double operators) {
      CaseRecord record = cell("a", Outcome::pass);
      record.digest.metrics = {{"collective_bytes", collective_bytes},
                               {"operators", operators},
                               {"peak_bytes.data", bytes},
                               {"peak_bytes.forward", bytes},
                               {"tensor_peak_bytes", bytes}};
      return record;
    };
    return reports::compare_cells({with(1e6, 100)}, {with(1e6 + more, 101)}).values.size();
  };
  EXPECT_EQ(values(5e5, 1e6), 1U) << "the operators differ still";
  EXPECT_EQ(values(0, 1), 4U);
}

TEST(Comparison, OnAnotherMachineExactValuesAreNotComparable) {
  harness::RunRecord before = fixtures::sample_run(1, "before", 0);
  harness::RunRecord now = fixtures::sample_run(2, "now", 0);
  before.provenance.machine = {{"cpu", "A"}, {"gpus", "1"}, {"torch", "2.10.0"}};
  now.provenance.machine = {{"cpu", "A"}, {"gpus", "1"}, {"torch", "2.11.0"}};
  const auto library = reports::compare_runs(
      fixtures::FakeStore(), before, {counted(100, 1.0)}, now, {counted(101, 1.0)});
  EXPECT_EQ(library.values.size(), 1U);
  EXPECT_THAT(library.around, ElementsAre("torch: 2.10.0, now 2.11.0"));
  now.provenance.machine[1].second = "2";
  const auto machine = reports::compare_runs(
      fixtures::FakeStore(), before, {counted(100, 1.0)}, now, {counted(101, 1.0)});
  EXPECT_THAT(machine.values, IsEmpty());
  EXPECT_EQ(machine.values_compared, 0U);
  EXPECT_THAT(machine.not_comparable, HasSubstr("NOT COMPARABLE"));
  EXPECT_THAT(reports::comparison_line(machine), HasSubstr("exact values not compared"));
  EXPECT_THAT(reports::comparison_text(machine), Not(HasSubstr("operators")));
}

TEST(Comparison, ManyMissingCellsOfOneReasonAreOneRow) {
  std::vector<CaseRecord> before;
  std::vector<CaseRecord> now;
  for (int i = 0; i < 50; ++i) {
    const std::string label = "s" + std::to_string(i);
    before.push_back(cell(label, Outcome::pass));
    now.push_back(cell(label, std::nullopt));
  }
  const std::string text = reports::comparison_text(reports::compare_cells(before, now));
  EXPECT_THAT(text,
              HasSubstr("| not run | 50 cases: s0, s1, s2, s3, s4, s5 and 44 more | PASS | "
                        "SKIP | no card |"));
}

TEST(Comparison, ASearchIsOneCell) {
  const auto rows = [](bool expected) { return fixtures::bisected_store(expected).case_rows; };
  const auto same = reports::compare_cells(rows(true), rows(true));
  EXPECT_THAT(same.cells, IsEmpty());
  EXPECT_EQ(same.same, 1U);
}

}  // namespace
