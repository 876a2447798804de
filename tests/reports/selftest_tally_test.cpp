// The rates of a self-test.
#include "reports/selftest_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample.h"

namespace {

using harness::CaseRecord;
using harness::Outcome;

harness::Finding finding(const std::string& code, int layer, harness::Role role) {
  harness::Finding found;
  found.code = code;
  found.site.layers = {layer};
  found.role = role;
  return found;
}

harness::Case planted() {
  harness::Case the_case = fixtures::sample_case("wrong_dv_scale");
  the_case.scenario.fault = harness::FaultRequest{};
  the_case.scenario.fault->name = "wrong_dv_scale";
  the_case.scenario.expect = harness::Expectation{};
  the_case.scenario.expect->code = "NUMERIC.GRADIENT or GRAD.SCALE";
  the_case.scenario.expect->site.layers = {1};
  return the_case;
}

CaseRecord record_of(const harness::Case& the_case,
                     Outcome outcome,
                     std::vector<harness::Finding> findings = {}) {
  CaseRecord record;
  record.label = "a case";
  record.case_json = harness::case_to_json(the_case);
  record.seconds = 2.0;
  record.judgement = harness::Judgement{outcome, "because", {}, std::move(findings)};
  return record;
}

CaseRecord healthy(Outcome outcome) {
  harness::Case the_case = planted();
  the_case.scenario.fault.reset();
  the_case.scenario.expect.reset();
  return record_of(the_case, outcome);
}

reports::SelftestTally of(const CaseRecord& record) {
  return reports::selftest_tally(std::vector<CaseRecord>{record});
}

constexpr auto kCause = harness::Role::initiating;

TEST(SelftestTally, ARightCauseAtTheRightPlaceCountsEverywhere) {
  const auto tally =
      of(record_of(planted(), Outcome::pass, {finding("NUMERIC.GRADIENT", 1, kCause)}));
  EXPECT_EQ(tally.all.faults, 1);
  EXPECT_EQ(tally.all.detected, 1);
  EXPECT_EQ(tally.all.preferred, 1);
  EXPECT_EQ(tally.all.placed, 1);
  EXPECT_TRUE(tally.missed.empty());
  EXPECT_EQ(tally.by_code.at("NUMERIC.GRADIENT").faults, 1);
}

TEST(SelftestTally, AnAcceptedCodeIsPlacedButNotPreferred) {
  const auto tally = of(record_of(planted(), Outcome::pass, {finding("GRAD.SCALE", 1, kCause)}));
  EXPECT_EQ(tally.all.preferred, 0);
  EXPECT_EQ(tally.all.placed, 1);
  EXPECT_EQ(tally.missed.size(), 1U);
}

TEST(SelftestTally, AnotherPlaceOrAnotherCodeIsDetectedOnly) {
  const auto place =
      of(record_of(planted(), Outcome::fail, {finding("NUMERIC.GRADIENT", 2, kCause)}));
  EXPECT_EQ(place.all.detected, 1);
  EXPECT_EQ(place.all.placed, 0);
  const auto code = of(record_of(planted(), Outcome::fail, {finding("GRAD.MISSING", 1, kCause)}));
  EXPECT_EQ(code.all.detected, 1);
  EXPECT_EQ(code.all.preferred, 0);
  EXPECT_EQ(code.all.placed, 0);
}

TEST(SelftestTally, WhatOnlyFollowsFromSomethingIsNoDetection) {
  const auto tally = of(record_of(
      planted(), Outcome::fail, {finding("NUMERIC.GRADIENT", 1, harness::Role::cascade)}));
  EXPECT_EQ(tally.all.detected, 0);
  EXPECT_EQ(tally.missed.front().told, "FAIL: because");
}

TEST(SelftestTally, AFaultThatChangedNothingIsCountedApart) {
  const auto tally = of(record_of(planted(), Outcome::error));
  EXPECT_EQ(tally.idle, 1);
  EXPECT_EQ(tally.all.faults, 0);
}

TEST(SelftestTally, HealthyCasesThatFailAreAlarmsAndUndecidedOnesAreNot) {
  const std::vector<CaseRecord> cases = {healthy(Outcome::pass),
                                         healthy(Outcome::fail),
                                         healthy(Outcome::hang),
                                         healthy(Outcome::inconclusive)};
  const auto tally = reports::selftest_tally(cases);
  EXPECT_EQ(tally.healthy, 4);
  EXPECT_EQ(tally.alarms, 2);
  EXPECT_EQ(tally.undecided, 1);
  EXPECT_EQ(tally.missed.size(), 3U);
}

TEST(Wilson, IsTheScoreIntervalOfTheBooks) {
  EXPECT_NEAR(reports::wilson(9, 10).low, 0.5958, 1e-4);
  EXPECT_NEAR(reports::wilson(9, 10).high, 0.9821, 1e-4);
  EXPECT_NEAR(reports::wilson(0, 10).high, 0.2775, 1e-4);
}

TEST(Wilson, HoldsTheShareAndIsSymmetric) {
  for (int all = 1; all <= 40; ++all) {
    for (int some = 0; some <= all; ++some) {
      const reports::Share share = reports::wilson(some, all);
      const reports::Share other = reports::wilson(all - some, all);
      const double p = static_cast<double>(some) / all;
      EXPECT_LE(share.low, p);
      EXPECT_GE(share.high, p);
      EXPECT_NEAR(share.low, 1.0 - other.high, 1e-12);
    }
  }
  EXPECT_EQ(reports::wilson(0, 0).high, 1.0) << "nothing seen says nothing";
}

}  // namespace
