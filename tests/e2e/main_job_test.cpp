// The main job from end to end, on real ranks: a healthy step is green by every check, a stored run is judged again with the
// same result, its report is written, and a killed run goes on where it was.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/installed.h"

namespace e2e {
namespace {

using testing::HasSubstr;

// ddp_onestep, small enough for seconds: two ranks over Gloo and their twin.
std::vector<std::string> small_step(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {scenario("ddp_onestep"),
                                   "--set",
                                   "model={use: toy, n_layers: 2, n_sel: 4, w: 128}",
                                   "--profile",
                                   "base",
                                   "--json",
                                   "--quiet"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

const nlohmann::json& only_case(const Told& told) {
  EXPECT_EQ(told.out.at("cases").size(), 1U) << told.text;
  return told.out.at("cases").at(0);
}

TEST(MainJob, AHealthyStepPassesEveryCheck) {
  const Installed program;
  const Told told = program("run", small_step());
  EXPECT_EQ(told.exit_code, 0) << told.text;
  const nlohmann::json& the_case = only_case(told);
  EXPECT_EQ(the_case.at("outcome"), "PASS");
  EXPECT_TRUE(the_case.at("findings").empty()) << the_case.dump(1);
  EXPECT_GE(the_case.at("verdicts").size(), 12U);
  for (const auto& verdict : the_case.at("verdicts")) {
    EXPECT_EQ(verdict.at("verdict"), "pass") << verdict.dump(1);
  }
}

TEST(MainJob, APlantedFaultEndsRed) {
  const Installed program;
  const Told told = program("run", small_step({"--set", "fault=averaged_twice"}));
  EXPECT_EQ(told.exit_code, 1) << told.text;
  EXPECT_EQ(only_case(told).at("outcome"), "FAIL");
}

TEST(MainJob, AStoredRunIsJudgedAgainWithTheSameResult) {
  const Installed program;
  const Told first = program("run", small_step({"--set", "fault=averaged_twice", "--keep"}));
  const Told again = program("judge", {"last", "--json"});
  EXPECT_EQ(again.exit_code, first.exit_code) << again.text;
  const auto codes = [](const Told& told) {
    std::vector<std::string> all;
    for (const auto& finding : only_case(told).at("findings")) all.push_back(finding.at("code"));
    return all;
  };
  EXPECT_EQ(codes(again), codes(first));
  EXPECT_FALSE(codes(first).empty());
}

TEST(MainJob, TheReportNamesTheFailure) {
  const Installed program;
  (void)program("run", small_step({"--set", "fault=averaged_twice"}));
  const Told report = program("report", {});
  EXPECT_THAT(report.text, HasSubstr("NO-GO"));
  EXPECT_THAT(report.text, HasSubstr("GRAD.SCALE"));
}

TEST(MainJob, AKilledRunGoesOnWhereItWas) {
  const Installed program;
  const Told told = program("run",
                            {scenario("resume"),
                             "--only",
                             "training.precision=fp32",
                             "--only",
                             "life.kill_phase=save",
                             "--profile",
                             "base",
                             "--json",
                             "--quiet"});
  EXPECT_EQ(told.exit_code, 0) << told.text;
  EXPECT_EQ(only_case(told).at("outcome"), "PASS");
}

}  // namespace
}  // namespace e2e
