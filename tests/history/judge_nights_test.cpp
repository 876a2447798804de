#include "harness/history/judge_nights.h"

#include "tests/history/simulated.h"

namespace harness::history {
namespace {

using test::NoiseKind;
using test::SimulatedCell;

std::vector<NightTimes> quiet_nights(int count, SimulatedCell& cell) {
  std::vector<NightTimes> nights;
  for (int i = 0; i < count; ++i) nights.push_back(cell.night(0.0));
  return nights;
}

class Gate : public ::testing::Test {
 protected:
  TimeJudgement judged(const NightTimes& night) {
    nights.push_back(night);
    return judge_nights(nights).back();
  }

  SimulatedCell cell{NoiseKind::white, 3};
  std::vector<NightTimes> nights = quiet_nights(20, cell);
  const double change = std::log1p(0.06);
};

void scale(std::vector<double>& values, double by) {
  for (double& value : values) value *= by;
}

NightTimes with_slower_machine(NightTimes night, double by) {
  for (Stage* stage : {&night.first, &*night.again}) {
    scale(stage->step_ms, by);
    scale(stage->control_ms, by);
  }
  return night;
}

TEST_F(Gate, ASlowerCandidateIsTheCodeASlowerMachineIsNot) {
  const TimeJudgement code = judged(cell.night(change));
  EXPECT_EQ(code.verdict, TimeVerdict::regressed);
  EXPECT_EQ(code.cause, Cause::code);
  EXPECT_NEAR(code.change, change, 0.015);
  nights.pop_back();
  const TimeJudgement machine = judged(with_slower_machine(cell.night(0.0), 1.06));
  EXPECT_EQ(machine.verdict, TimeVerdict::same);
  EXPECT_EQ(machine.cause, Cause::machine);
  EXPECT_NEAR(machine.control_change, change, 0.015);
}

TEST_F(Gate, AFasterCandidateIsToldToo) {
  EXPECT_EQ(judged(cell.night(-change)).verdict, TimeVerdict::improved);
}

TEST_F(Gate, AnotherLibraryIsNamedBeforeTheCode) {
  NightTimes night = cell.night(change);
  night.library = "torch 2.12";
  EXPECT_EQ(judged(night).cause, Cause::library);
}

// Everything became slower, and the control more than the candidate: no code became faster.
TEST_F(Gate, AControlThatBecameEvenSlowerThanTheCandidateSaysNothingOfTheCode) {
  for (const double sign : {1.0, -1.0}) {
    NightTimes night = cell.night(0.0);
    for (Stage* stage : {&night.first, &*night.again}) {
      scale(stage->step_ms, std::exp(0.06 * sign));
      scale(stage->control_ms, std::exp(0.13 * sign));
    }
    const TimeJudgement judgement = judged(night);
    EXPECT_EQ(judgement.verdict, TimeVerdict::not_comparable);
    EXPECT_EQ(judgement.cause, Cause::machine);
    EXPECT_THAT(judgement.reason, ::testing::HasSubstr("and the candidate"));
  }
}

TEST_F(Gate, AControlThatAloneBecameSlowerSaysNothingOfTheCode) {
  NightTimes night = cell.night(0.0);
  for (Stage* stage : {&night.first, &*night.again}) scale(stage->control_ms, 1.06);
  const TimeJudgement judgement = judged(night);
  EXPECT_EQ(judgement.verdict, TimeVerdict::not_comparable);
  EXPECT_THAT(judgement.reason, ::testing::HasSubstr("the control alone"));
}

TEST_F(Gate, WithoutARerunNothingIsFoundAndOneIsAskedFor) {
  NightTimes night = cell.night(change);
  night.again.reset();
  EXPECT_EQ(judged(night).verdict, TimeVerdict::unknown);
  EXPECT_TRUE(wants_rerun(nights));
  nights.back() = cell.night(0.0);
  nights.back().again.reset();
  EXPECT_FALSE(wants_rerun(nights));
  EXPECT_EQ(judge_nights(nights).back().verdict, TimeVerdict::same);
}

TEST_F(Gate, ARerunThatDisagreesTakesTheSuspicionBack) {
  NightTimes night = cell.night(change);
  night.again = cell.night(0.0).again;
  EXPECT_EQ(judged(night).verdict, TimeVerdict::same);
}

TEST_F(Gate, WhatWasFoundStaysFoundUntilItIsAccepted) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(judged(cell.night(change)).verdict, TimeVerdict::regressed);
  NightTimes night = cell.night(change);
  night.accepted = true;
  EXPECT_EQ(judged(night).verdict, TimeVerdict::unknown) << "nothing to compare it with";
  // The scatter of the nights before is still known: no six nights without a judgement.
  EXPECT_EQ(judged(cell.night(change)).verdict, TimeVerdict::same);
  EXPECT_EQ(judged(cell.night(change + std::log1p(0.08))).verdict, TimeVerdict::regressed);
}

TEST_F(Gate, ASlowDriftOfTheCodeIsFoundInTheEnd) {
  for (int i = 1; i <= 40; ++i) nights.push_back(cell.night(0.002 * i));
  EXPECT_EQ(judge_nights(nights).back().verdict, TimeVerdict::regressed);
}

TEST_F(Gate, WhatCannotBeComparedSaysWhy) {
  NightTimes few = cell.night(change);
  few.first.step_ms.pop_back();
  few.first.control_ms.pop_back();
  EXPECT_EQ(judged(few).reason, "measured by 7 launches, wanted 8");
  NightTimes broken = cell.night(change);
  broken.again->step_ms[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judged(broken).reason, "the rerun: a measured time is no positive number");
  NightTimes elsewhere = cell.night(change);
  elsewhere.machine = "another card";
  EXPECT_EQ(judged(elsewhere).verdict, TimeVerdict::not_comparable);
  EXPECT_EQ(judge_nights(quiet_nights(6, cell)).back().reason, "5 earlier nights, wanted 6");
}

TEST_F(Gate, TimesThatNeverScatterAreNoReasonForAlarm) {
  for (NightTimes& night : nights) {
    for (Stage* stage : {&night.first, &*night.again}) {
      stage->step_ms.assign(kFewestLaunches, 100.0);
      stage->control_ms.assign(kFewestLaunches, 10.0);
    }
  }
  EXPECT_EQ(judge_nights(nights).back().verdict, TimeVerdict::same);
  for (Stage* stage : {&nights.back().first, &*nights.back().again}) scale(stage->step_ms, 1.002);
  EXPECT_EQ(judge_nights(nights).back().verdict, TimeVerdict::same) << "0.2 % do not matter";
}

TEST_F(Gate, ADisturbedNightHidesNoLaterChange) {
  for (const std::size_t reference : {std::size_t{7}, std::size_t{13}, std::size_t{20}}) {
    nights = quiet_nights(static_cast<int>(reference), cell);
    for (Stage* stage : {&nights[2].first, &*nights[2].again}) scale(stage->step_ms, 1.6);
    EXPECT_EQ(judged(cell.night(0.0)).verdict, TimeVerdict::same) << reference;
    nights.pop_back();
    EXPECT_EQ(judged(cell.night(std::log1p(0.12))).verdict, TimeVerdict::regressed) << reference;
  }
}

TEST_F(Gate, NightsThatScatterTooMuchAreNotCalledTheSame) {
  for (std::size_t i = 0; i < nights.size(); ++i) {
    for (Stage* stage : {&nights[i].first, &*nights[i].again}) {
      scale(stage->step_ms, 1.0 + 0.2 * static_cast<double>(i % 5));
    }
  }
  const TimeJudgement judgement = judged(cell.night(std::log1p(0.3)));
  EXPECT_EQ(judgement.verdict, TimeVerdict::unknown);
  EXPECT_TRUE(judgement.blind);
  EXPECT_THAT(judgement.reason, ::testing::HasSubstr("cannot be seen"));
  nights.back().again.reset();
  EXPECT_FALSE(wants_rerun(nights)) << "to measure it again would tell nothing either";
}

TEST_F(Gate, AnAcceptedNightThatSaysNothingPassesItsAcceptanceOn) {
  NightTimes accepted = cell.night(change);
  accepted.accepted = true;
  accepted.first.step_ms.pop_back();
  accepted.first.control_ms.pop_back();
  nights.push_back(accepted);
  EXPECT_EQ(judged(cell.night(change)).verdict, TimeVerdict::unknown) << "a new reference begins";
  for (int i = 0; i < kFewestReference; ++i) nights.push_back(cell.night(change));
  EXPECT_EQ(judged(cell.night(change)).verdict, TimeVerdict::same);
}

TEST(GateOfANight, CellsThatMoveTogetherNeedLessEvidenceEach) {
  TimeJudgement cell;
  cell.verdict = TimeVerdict::same;
  cell.step_ms = 100.0;
  cell.change = 0.03;
  cell.p = 1.5 * kLevel;
  std::vector<TimeJudgement> one = {cell};
  judge_together(one);
  EXPECT_EQ(one.front().verdict, TimeVerdict::same);
  std::vector<TimeJudgement> three(3, cell);
  three.front().p = 0.5 * kLevel;
  three.back().change = 0.5 * kFloorShare;
  judge_together(three);
  EXPECT_EQ(three[1].verdict, TimeVerdict::regressed);
  EXPECT_EQ(three[2].verdict, TimeVerdict::same) << "too small to matter, however sure";
}

}  // namespace
}  // namespace harness::history
