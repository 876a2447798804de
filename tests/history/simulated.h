// Nights that never were: launches with a deviation of 1 %, candidate and control each with its own, under one of five noises.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "harness/history/judge_nights.h"

namespace harness::history::test {

enum class NoiseKind {
  white,   // normal, 1 % a launch
  bursts,  // and one night in ten a neighbour makes 3 of the 8 launches of each stage 8 % slower, but not their control
  drift,   // and the machine becomes 0.2 % slower every night
  clocks,  // and once in 60 nights its clock steps by 3 %, up or down
  student  // Student's t with 3 degrees of freedom times 1 %, whose deviation is 1.7 %
};
inline constexpr NoiseKind kNoises[] = {
    NoiseKind::white, NoiseKind::bursts, NoiseKind::drift, NoiseKind::clocks, NoiseKind::student};

class SimulatedCell {
 public:
  SimulatedCell(NoiseKind kind, unsigned seed) : kind_(kind), random_(seed) {}

  // The next night. `change`: of the candidate, as a logarithm.
  NightTimes night(double change) {
    if (kind_ == NoiseKind::drift) machine_ += 0.002;
    if (kind_ == NoiseKind::clocks && chance(1.0 / 60.0)) machine_ += chance(0.5) ? 0.03 : -0.03;
    burst_ = kind_ == NoiseKind::bursts && chance(0.1);
    NightTimes night;
    night.run = ++run_;
    night.first = stage(change);
    night.again = stage(change);
    return night;
  }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

  double launch_noise() {
    return 0.01 * (kind_ == NoiseKind::student ? student_(random_) : normal_(random_));
  }

  Stage stage(double change) {
    constexpr double kStepMs = 100.0;
    constexpr double kControlMs = 10.0;
    Stage stage;
    for (std::size_t launch = 0; launch < kFewestLaunches; ++launch) {
      const double neighbour = burst_ && launch < 3 ? std::log(1.08) : 0.0;
      stage.step_ms.push_back(kStepMs * std::exp(machine_ + change + neighbour + launch_noise()));
      stage.control_ms.push_back(kControlMs * std::exp(machine_ + launch_noise()));
    }
    return stage;
  }

  NoiseKind kind_;
  std::mt19937_64 random_;
  std::normal_distribution<> normal_;
  std::student_t_distribution<> student_{3.0};
  double machine_ = 0.0;
  bool burst_ = false;
  std::int64_t run_ = 0;
};

inline const char* name_of(NoiseKind kind) {
  constexpr const char* kNames[] = {"white", "bursts", "drift", "clocks", "student"};
  return kNames[static_cast<int>(kind)];
}

inline bool is_alarm(const TimeJudgement& judgement) {
  return judgement.verdict != TimeVerdict::same && judgement.verdict != TimeVerdict::unknown;
}

}  // namespace harness::history::test
