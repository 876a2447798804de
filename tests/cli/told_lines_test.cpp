// Hundreds of cases that were skipped for one reason are a line and a count.
#include "harness/cli/running/told_lines.h"

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

TEST_F(TellingLines, OfCasesThatAreSkippedForOneReasonTheOthersAreCountedAtTheEnd) {
  skip("a", "late");
  skip("b", "no card");
  for (const char* label : {"c", "d", "e"}) skip(label, "late");
  add(Outcome::pass, "f", "late");
  skip("g", "no card");
  EXPECT_THAT(told_, ElementsAre("SKIP a: late", "SKIP b: no card", "PASS f: late"));
  lines_.end();
  EXPECT_THAT(told_,
              ElementsAre("SKIP a: late",
                          "SKIP b: no card",
                          "PASS f: late",
                          "SKIP and 3 more cases: late",
                          "SKIP g: no card"));
  lines_.end();
  EXPECT_EQ(told_.size(), 5U) << "told once";
}

TEST_F(TellingLines, WhatRanHasItsLineWhateverTheReason) {
  for (const char* label : {"a", "b"}) add(Outcome::pass, label, "9 checks passed");
  skip("c", "late");
  for (const char* label : {"d", "e"}) add(Outcome::fail, label, "late");
  lines_.end();
  EXPECT_EQ(told_.size(), 5U);
}

}  // namespace
