// Hundreds of cases that were skipped for one reason are a line and a count.
#include "harness/cli/told_lines.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using harness::Outcome;
using harness::cli::ToldLines;
using testing::ElementsAre;

class TellingLines : public testing::Test {
 protected:
  void add(Outcome outcome, const std::string& label, const std::string& reason) {
    lines_.add(outcome, label, 0, reason);
  }
  void skip(const std::string& label, const std::string& reason) {
    add(Outcome::skip, label, reason);
  }
  std::vector<std::string> told_;
  ToldLines lines_{
      [this](Outcome outcome, const std::string& label, double, const std::string& why) {
        told_.push_back(std::string(harness::name_of(outcome)) + " " + label + ": " + why);
      }};
};

TEST_F(TellingLines, CasesThatAreSkippedForOneReasonAreCounted) {
  for (const char* label : {"a", "b", "c", "d"}) skip(label, "late");
  add(Outcome::pass, "e", "late");
  EXPECT_THAT(told_, ElementsAre("SKIP a: late", "SKIP and 3 more cases: late", "PASS e: late"));
}

TEST_F(TellingLines, AnotherReasonAndTheEndTellWhatWasCounted) {
  skip("a", "late");
  skip("b", "late");
  skip("c", "no card");
  skip("d", "no card");
  skip("e", "no card");
  lines_.end();
  EXPECT_THAT(
      told_,
      ElementsAre(
          "SKIP a: late", "SKIP b: late", "SKIP c: no card", "SKIP and 2 more cases: no card"));
  lines_.end();
  EXPECT_EQ(told_.size(), 4U) << "told once";
}

TEST_F(TellingLines, WhatRanHasItsLineWhateverTheReason) {
  add(Outcome::pass, "a", "9 checks passed");
  add(Outcome::pass, "b", "9 checks passed");
  skip("c", "late");
  add(Outcome::fail, "d", "late");
  skip("e", "late");
  lines_.end();
  EXPECT_EQ(told_.size(), 5U);
}

}  // namespace
