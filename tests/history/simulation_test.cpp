// The gate on simulated nights: how often it is wrong, and what it finds. A few years of each noise here; a thousand in
// SimulationSlowTrials (label slow). Every night has its rerun here, which gives no fewer alarms than the nights that ask for one.
#include <iostream>

#include "tests/history/simulated.h"

namespace harness::history::test {
namespace {

constexpr int kNightsOfAYear = 365;
constexpr int kNightsBefore = 30;

int alarms_of_a_year(NoiseKind kind, unsigned seed) {
  SimulatedCell cell(kind, seed);
  std::vector<NightTimes> nights;
  for (int i = 0; i < kNightsOfAYear; ++i) nights.push_back(cell.night(0.0));
  const auto judged = judge_nights(nights);
  return static_cast<int>(std::count_if(judged.begin(), judged.end(), is_alarm));
}

// The first of three nights with +5 % that is found: 0, 1, 2; 3 for none. Their cause must be the code.
int night_of_finding(NoiseKind kind, unsigned seed) {
  SimulatedCell cell(kind, seed);
  std::vector<NightTimes> nights;
  for (int i = 0; i < kNightsBefore; ++i) nights.push_back(cell.night(0.0));
  for (int i = 0; i < 3; ++i) nights.push_back(cell.night(std::log1p(0.05)));
  const auto judged = judge_nights(nights);
  for (int i = 0; i < 3; ++i) {
    const TimeJudgement& one = judged[static_cast<std::size_t>(kNightsBefore + i)];
    if (one.verdict == TimeVerdict::regressed && one.cause == Cause::code) return i;
  }
  return 3;
}

// Whether a change is found that is as large as the smallest one that the gate itself promised to see.
bool sees_what_it_promised(NoiseKind kind, unsigned seed) {
  SimulatedCell cell(kind, seed);
  std::vector<NightTimes> nights;
  for (int i = 0; i <= kNightsBefore; ++i) nights.push_back(cell.night(0.0));
  const double promised = judge_nights(nights).back().smallest;
  for (Stage* stage : {&nights.back().first, &*nights.back().again}) {
    for (double& ms : stage->step_ms) ms *= std::exp(promised);
  }
  return judge_nights(nights).back().verdict == TimeVerdict::regressed;
}

struct Tally {
  double alarms_a_year = 0.0;
  double first_night = 0.0;  // shares of what was tried
  double three_nights = 0.0;
  double promised = 0.0;
};

Tally simulate(NoiseKind kind, int years, int trials) {
  Tally tally;
  for (int i = 0; i < years; ++i) {
    tally.alarms_a_year += alarms_of_a_year(kind, static_cast<unsigned>(i)) / double(years);
  }
  for (int i = 0; i < trials; ++i) {
    const int night = night_of_finding(kind, static_cast<unsigned>(1'000'000 + i));
    tally.first_night += (night == 0 ? 1.0 : 0.0) / trials;
    tally.three_nights += (night < 3 ? 1.0 : 0.0) / trials;
    tally.promised +=
        (sees_what_it_promised(kind, static_cast<unsigned>(2'000'000 + i)) ? 1.0 : 0.0) / trials;
  }
  std::cout << name_of(kind) << ": " << tally.alarms_a_year << " false alarms a year, +5 % found "
            << tally.first_night << " the first night, " << tally.three_nights
            << " within three; the promised change " << tally.promised << "\n";
  return tally;
}

TEST(Simulation, FiveShortTriesOfEachNoise) {
  for (const NoiseKind kind : kNoises) {
    SCOPED_TRACE(name_of(kind));
    EXPECT_EQ(alarms_of_a_year(kind, 7), 0);
    for (unsigned seed = 0; seed < 5; ++seed) EXPECT_LT(night_of_finding(kind, seed), 3) << seed;
  }
}

TEST(SimulationSlowTrials, AThousandSeriesYears) {
  for (const NoiseKind kind : kNoises) {
    SCOPED_TRACE(name_of(kind));
    const Tally tally = simulate(kind, 200, 400);
    EXPECT_LE(tally.alarms_a_year, 0.1);
    const bool disturbed = kind == NoiseKind::bursts || kind == NoiseKind::student;
    EXPECT_GE(disturbed ? tally.three_nights : tally.first_night, 0.95);
    EXPECT_GE(tally.promised, 0.95);
  }
}

}  // namespace
}  // namespace harness::history::test
