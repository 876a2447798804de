// New, fixed, returned: what a case says against its earlier runs, as a table.
#include <gtest/gtest.h>

#include "reports/sections/change_kind.h"

namespace {

using harness::Outcome;
using reports::Change;

reports::CaseView case_of(std::optional<Outcome> now, const std::vector<Outcome>& history) {
  reports::CaseView view;
  if (now) view.record.judgement.emplace().outcome = *now;
  for (const Outcome outcome : history) view.history.push_back({1, "run", "", outcome, ""});
  return view;
}

Change change(std::optional<Outcome> now, const std::vector<Outcome>& newest_first) {
  return reports::change_of(case_of(now, newest_first));
}

TEST(Change, ComparesWithTheNewestDecidedRun) {
  EXPECT_EQ(change(Outcome::pass, {}), Change::first);
  EXPECT_EQ(change(Outcome::fail, {}), Change::first);
  EXPECT_EQ(change(Outcome::pass, {Outcome::pass}), Change::same);
  EXPECT_EQ(change(Outcome::fail, {Outcome::pass}), Change::fresh);
  EXPECT_EQ(change(Outcome::hang, {Outcome::pass, Outcome::pass, Outcome::fail}), Change::returned);
  EXPECT_EQ(change(Outcome::pass, {Outcome::crash, Outcome::pass}), Change::fixed);
  EXPECT_EQ(change(Outcome::fail, {Outcome::fail}), Change::still);
  EXPECT_EQ(change(Outcome::hang, {Outcome::fail}), Change::changed);
}

TEST(Change, AnotherCodeIsAnotherFailure) {
  reports::CaseView view = case_of(Outcome::fail, {Outcome::fail});
  view.history[0].code = "GRAD.MISSING";
  EXPECT_EQ(reports::change_of(view), Change::changed);
  view.record.judgement->findings.emplace_back().code = "GRAD.MISSING";
  EXPECT_EQ(reports::change_of(view), Change::still);
}

TEST(Change, WhatDecidesNothingIsNeitherNewNorFixed) {
  for (const Outcome open : {Outcome::error, Outcome::inconclusive}) {
    EXPECT_EQ(change(open, {Outcome::pass}), Change::undecided);
    EXPECT_EQ(change(open, {Outcome::fail}), Change::undecided);
  }
  EXPECT_EQ(change(std::nullopt, {Outcome::pass}), Change::not_run);
  reports::CaseView skipped = case_of(std::nullopt, {Outcome::fail});
  skipped.record.skip_reason = "why";
  EXPECT_EQ(reports::change_of(skipped), Change::not_run);
}

}  // namespace
