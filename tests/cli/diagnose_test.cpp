// `diagnose` and `run --diagnose` from outside: what they say, their exit codes, and what is in the database afterwards.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace {

using fakes::ProgramResult;
using testing::HasSubstr;

class DiagnoseVerbTest : public testing::Test {
 protected:
  void run_here(const std::string& mood, const std::string& lines = "") const {
    program_.set_mood(mood);
    (void)program_.run({"run", program_.scenario(lines), "--quiet"});
  }
  [[nodiscard]] ProgramResult diagnose(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"diagnose", "last"};
    words.insert(words.end(), more.begin(), more.end());
    return program_.run(words);
  }

  fakes::Program program_;
};

TEST_F(DiagnoseVerbTest, WhatNothingRemovesIsSupported) {
  run_here("crash");
  const ProgramResult told = diagnose({"1", "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 2) << told.out << told.err;
  const auto object = nlohmann::json::parse(told.out);
  EXPECT_EQ(object.at("cases").size(), 1U);
  EXPECT_EQ(object.at("diagnoses").at(0).at("status"), "supported");
  EXPECT_EQ(object.at("diagnoses").at(0).at("finished"), true);
  const ProgramResult report = program_.run({"report"});
  EXPECT_THAT(report.out, HasSubstr("## Diagnosis"));
}

TEST_F(DiagnoseVerbTest, ACaseThatDoesNotFailAgainIsUnknown) {
  run_here("crash");
  program_.set_mood("ok");
  const ProgramResult told = diagnose();
  EXPECT_EQ(told.exit_code, 2) << told.out << told.err;
  EXPECT_THAT(told.out, HasSubstr("UNKNOWN"));
  EXPECT_THAT(told.out, HasSubstr("it is not deterministic"));
}

TEST_F(DiagnoseVerbTest, WhatIsNoFailureIsRefused) {
  run_here("ok");
  EXPECT_EQ(diagnose().exit_code, 4);
  EXPECT_EQ(diagnose({"1"}).exit_code, 3);
  EXPECT_EQ(diagnose({"7"}).exit_code, 3);
  EXPECT_EQ(program_.run({"diagnose", "nowhere"}).exit_code, 3);
}

TEST_F(DiagnoseVerbTest, ARunDiagnosesWhatFailedAndCountsItsCasesAlone) {
  program_.set_mood("crash");
  const ProgramResult told =
      program_.run({"run", program_.scenario(""), "--diagnose", "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 1) << told.out << told.err;
  const auto object = nlohmann::json::parse(told.out);
  EXPECT_EQ(object.at("cases").size(), 1U) << told.out;
  EXPECT_EQ(object.at("diagnoses").at(0).at("status"), "supported");
}

}  // namespace
