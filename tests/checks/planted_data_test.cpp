// What is wrong in a file of planted cases is refused, and where it stands is said.
#include "tests/checks/planted_data.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using fixtures::Healthy;
using fixtures::Planted;
using testing::HasSubstr;

// A file of one check; its cases stand from line 2 on.
class PlantedData : public testing::Test {
 protected:
  [[nodiscard]] std::vector<Planted> read(const std::string& cases) const {
    const std::string path = folder_.path() + "/progress.yaml";
    std::ofstream(path) << "check: progress\n" << cases;
    return fixtures::planted_in_file(path);
  }
  // Of one change in a case of its own, on line 4.
  [[nodiscard]] Planted planted(const std::string& change) const {
    return read("cases:\n  - name: one\n    change: [" + change + "]\n    gives: pass\n").at(0);
  }
  // Why a file is refused; "" where it is not.
  [[nodiscard]] std::string refused(const std::string& change) const {
    try {
      (void)planted(change);
    } catch (const nsa::Error& error) {
      return error.what();
    }
    return "";
  }

 private:
  fixtures::TempFolder folder_;
};

TEST_F(PlantedData, SaysOfAnUnknownWordWhereItStandsAndWhatIsKnown) {
  EXPECT_THAT(refused("{rows: gradint, set: {state: none}}"),
              testing::AllOf(HasSubstr("progress.yaml:4"), HasSubstr("gradient")));
  EXPECT_THAT(refused("{rows: gradient, where: {stat: ok}, set: {state: none}}"),
              testing::AllOf(HasSubstr("progress.yaml:4"), HasSubstr("state")));
  EXPECT_THAT(refused("{rows: gradient, set: {stat: none}}"), HasSubstr("state"));
  EXPECT_THAT(refused("{add: phase, row: {fase: save}}"), HasSubstr("phase"));
  EXPECT_THAT(refused("{add: phase, each: {steps: 1..2}}"), HasSubstr("steps"));
  EXPECT_THAT(refused("{scenario: {training.step: 2}}"), HasSubstr("steps"));
  EXPECT_THAT(refused("{use: stoped, with: [still, forward]}"), HasSubstr("stopped"));
  EXPECT_THAT(refused("{like: another}"), HasSubstr("progress.yaml:4"));
  EXPECT_THAT(refused("{remove: phase, were: {step: 1}}"), HasSubstr("where"));
}

TEST_F(PlantedData, RefusesAValueOfAnotherTypeAndWrongArguments) {
  EXPECT_THAT(refused("{rows: gradient, set: {step: first}}"), HasSubstr("set.step"));
  EXPECT_THAT(refused("{rows: gradient, where: {step: 1..b}, set: {state: none}}"),
              HasSubstr("range"));
  EXPECT_THAT(refused("{use: stopped, with: [still]}"), HasSubstr("found 1 arguments"));
  EXPECT_THAT(refused("{rows: gradient}"), HasSubstr("found no set"));
}

TEST_F(PlantedData, SaysWhereNoRowIsAsWanted) {
  const Planted none = planted("{rows: gradient, where: {step: 7}, set: {state: none}}");
  Healthy healthy;
  try {
    none.spoil(healthy);
    FAIL() << "took a condition that no row meets";
  } catch (const nsa::Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("progress.yaml:4"), HasSubstr("gradient")));
  }
}

TEST_F(PlantedData, ChangesWhatMeetsAllConditions) {
  Healthy healthy(2, 3);
  planted(
      "{rows: sample, where: {process: ranks, step: 2.., metric: l*s}, plus: {value: 1.0}}, "
      "{add: state, each: {process: [0, twin], step: 1..2}, row: {part: rng, hash: \"of {step}\"}}")
      .spoil(healthy);
  for (const auto& row : healthy.evidence.samples) {
    if (row.row.metric != "loss") continue;
    EXPECT_EQ(row.row.value, 5.5 + row.process + (row.row.step >= 2 ? 1.0 : 0.0));
  }
  ASSERT_EQ(healthy.evidence.states.size(), 4U);
  EXPECT_EQ(healthy.evidence.states.back().process, harness::kTwin);
  EXPECT_EQ(healthy.evidence.states.back().row.hash, "of 2");
}

}  // namespace
