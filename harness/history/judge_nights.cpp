#include "harness/history/judge_nights.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "harness/history/noise.h"

namespace harness::history {
namespace {

constexpr double kQuartile = 0.25;
constexpr std::size_t kRecent = 5;  // good nights that tell what else moved of late
constexpr double kMachineShare = 0.02;
constexpr double kLeastDeviation =
    1e-4;  // nights that agree better than 0.01 % do so by chance or by a coarse clock

struct Value {  // of a stage, in logarithms
  double candidate = 0.0;
  double control = 0.0;
  double half = 0.0;  // `ratio` of the even launches less that of the odd ones

  [[nodiscard]] double ratio() const { return candidate - control; }
};

std::vector<double> logarithms(const std::vector<double>& times) {
  std::vector<double> logs;
  for (const double time : times) logs.push_back(std::log(time));
  return logs;
}

std::vector<double> every_second(const std::vector<double>& values, std::size_t first) {
  std::vector<double> half;
  for (std::size_t i = first; i < values.size(); i += 2) half.push_back(values[i]);
  return half;
}

Value value_of(const Stage& stage) {
  const std::vector<double> steps = logarithms(stage.step_ms);
  const std::vector<double> controls = logarithms(stage.control_ms);
  const auto half = [&](std::size_t first) {
    return quantile(every_second(steps, first), kQuartile) -
           quantile(every_second(controls, first), kQuartile);
  };
  return {quantile(steps, kQuartile), quantile(controls, kQuartile), half(0) - half(1)};
}

std::string unusable(const Stage& stage) {
  const std::size_t launches = std::min(stage.step_ms.size(), stage.control_ms.size());
  if (launches < kFewestLaunches || stage.step_ms.size() != stage.control_ms.size()) {
    return "measured by " + std::to_string(launches) + " launches, wanted " +
           std::to_string(kFewestLaunches);
  }
  for (const std::vector<double>* times : {&stage.step_ms, &stage.control_ms}) {
    for (const double time : *times) {
      if (!(time > 0.0 && std::isfinite(time))) return "a measured time is no positive number";
    }
  }
  return "";
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * std::abs(std::expm1(share)));
  return text;
}

std::string slower(double share) {
  return percent(share) + (share > 0.0 ? " slower" : " faster");
}

double mean_ratio(const std::vector<Value>& values) {
  double sum = 0.0;
  for (const Value& value : values) sum += value.ratio();
  return sum / static_cast<double>(values.size());
}

struct Scatter {  // of some nights, in their order
  explicit Scatter(const std::vector<Value>& nights) {
    for (const Value& value : nights) {
      ratios.push_back(value.ratio());
      halves.push_back(value.half);
    }
  }
  std::vector<double> ratios;
  std::vector<double> halves;
};

std::vector<Value> without_disturbed(const std::vector<Value>& nights) {
  const Scatter all(nights);
  std::vector<Value> kept;
  for (const std::size_t at : undisturbed(all.ratios, all.halves, kLeastDeviation)) {
    kept.push_back(nights[at]);
  }
  return kept;
}

Noise noise_of_nights(const std::vector<Value>& nights) {
  const Scatter all(nights);
  return noise_of(all.ratios, all.halves);
}

// What nights are compared with.
class Reference {
 public:
  void begin_anew() {
    if (!level_.empty()) earlier_ = noise_;
    all_.clear();
    level_.clear();
    recent_.clear();
  }

  void add(const Value& value, const NightTimes& night) {
    recent_.push_back(value);
    if (recent_.size() > kRecent) recent_.erase(recent_.begin());
    machine_ = night.machine;
    library_ = night.library;
    if (all_.size() == static_cast<std::size_t>(kMostReference)) return;
    all_.push_back(value);
    level_ = without_disturbed(all_);
    learn();
  }

  [[nodiscard]] bool suffices() const {
    return !level_.empty() && noise_.freedom + 1 >= kFewestReference;
  }
  [[nodiscard]] std::size_t nights() const { return level_.size(); }
  [[nodiscard]] const Noise& noise() const { return noise_; }
  [[nodiscard]] double level() const { return mean_ratio(level_); }
  // Deviations with which a night is measured again, and with which it and its rerun are different.
  [[nodiscard]] double suspect() const { return suspect_; }
  [[nodiscard]] double smallest() const { return smallest_visible(noise_, found_); }
  [[nodiscard]] double recent(double Value::*part) const {
    std::vector<double> values;
    for (const Value& value : recent_) values.push_back(value.*part);
    return quantile(values, 0.5);
  }
  [[nodiscard]] const std::string& machine() const { return machine_; }
  [[nodiscard]] const std::string& library() const { return library_; }

 private:
  // After an accepted change the nights before it still tell how much nights scatter.
  void learn() {
    noise_ = noise_of_nights(level_);
    if (earlier_.freedom > noise_.freedom) {
      const int nights = noise_.nights;
      noise_ = earlier_;
      noise_.nights = nights;
    }
    noise_.deviation = std::max(noise_.deviation, kLeastDeviation);
    if (!suffices()) return;
    suspect_ = critical_deviations(noise_, kLevel * kMostCells);
    found_ = critical_deviations(noise_, kLevel);
  }

  std::vector<Value> all_;    // since the reference began
  std::vector<Value> level_;  // those of them that were not disturbed
  std::vector<Value> recent_;
  Noise noise_;
  Noise earlier_;
  double suspect_ = 0.0;
  double found_ = 0.0;
  std::string machine_;
  std::string library_;
};

bool is_large(const TimeJudgement& judgement) {
  return std::abs(judgement.change) >= kFloorShare &&
         std::abs(std::expm1(judgement.change)) * judgement.step_ms >= kFloorMs;
}

// A change for the better or the worse, and what it is to be looked for in.
void tell_change(TimeJudgement& judgement, double candidate_change, bool other_library) {
  const double control = judgement.control_change;
  const double own = judgement.change > 0.0 ? candidate_change : -candidate_change;
  const double little = 0.25 * std::abs(judgement.change);
  if (control * judgement.change < 0.0 && own <= little) {
    // The candidate did not move that way, or moved the other way with the control.
    judgement.verdict = TimeVerdict::not_comparable;
    judgement.cause = Cause::machine;
    judgement.reason = own <= -little ? "the control became " + slower(control) +
                                            ", and the candidate " + slower(candidate_change)
                                      : "the control alone became " + slower(control);
    return;
  }
  judgement.verdict = judgement.change > 0.0 ? TimeVerdict::regressed : TimeVerdict::improved;
  // What moves the control by less than the candidate beside it is not what moved the candidate.
  const bool control_too =
      control * judgement.change > 0.0 && std::abs(control) >= std::abs(judgement.change);
  judgement.cause = control_too ? Cause::machine : other_library ? Cause::library : Cause::code;
  if (control_too) judgement.reason = "the control became " + slower(control) + " too";
}

// Nights that scatter so much hide what somebody would want to know: then it is not said that nothing changed.
void tell_same(TimeJudgement& judgement) {
  if (std::expm1(judgement.smallest) > kMostUnseen) {
    judgement.blind = true;
    judgement.reason = "the reference nights scatter so much that a change below " +
                       percent(judgement.smallest) + " cannot be seen";
    return;
  }
  judgement.verdict = TimeVerdict::same;
  if (!(std::abs(judgement.control_change) >= kMachineShare)) return;
  judgement.cause = Cause::machine;
  judgement.reason =
      "the control became " + slower(judgement.control_change) + ", and the candidate with it";
}

// How far both stages are from the level, to the same side; 0 where they are not on the same side.
double least_distance(const std::vector<Value>& stages, double level) {
  const double first = stages.front().ratio() - level;
  const double last = stages.back().ratio() - level;
  return first * last > 0.0 ? std::min(std::abs(first), std::abs(last)) : 0.0;
}

// With enough reference nights.
void judge_night(TimeJudgement& judgement, const NightTimes& night, const Reference& reference) {
  std::vector<Value> stages = {value_of(night.first)};
  if (night.again) stages.push_back(value_of(*night.again));
  double candidate_change = 0.0;
  const auto share = 1.0 / static_cast<double>(stages.size());
  for (const Value& stage : stages) {
    judgement.change += share * (stage.ratio() - reference.level());
    judgement.control_change += share * (stage.control - reference.recent(&Value::control));
    candidate_change += share * (stage.candidate - reference.recent(&Value::candidate));
  }
  judgement.smallest = std::max(kFloorShare, reference.smallest());
  const double deviations = least_distance(stages, reference.level()) / reference.noise().deviation;
  if (!night.again) {
    if (is_large(judgement) && deviations >= reference.suspect()) {
      judgement.reason = "looks " + slower(judgement.change) + ", but was measured only once";
    } else {
      tell_same(judgement);
    }
    return;
  }
  judgement.p = both_stages_beyond(deviations, reference.noise());
  if (is_large(judgement) && judgement.p <= kLevel) {
    tell_change(judgement, candidate_change, night.library != reference.library());
  } else {
    tell_same(judgement);
  }
}

std::string why_unusable(const NightTimes& night) {
  const std::string first = unusable(night.first);
  if (!first.empty() || !night.again) return first;
  const std::string again = unusable(*night.again);
  return again.empty() ? "" : "the rerun: " + again;
}

void judge_with(TimeJudgement& judgement, const NightTimes& night, Reference& reference) {
  // Also where this night's own times say nothing: then the new reference begins with the next one that does.
  if (night.accepted) reference.begin_anew();
  judgement.reason = why_unusable(night);
  if (!judgement.reason.empty()) return;
  std::vector<double> steps = night.first.step_ms;
  if (night.again) {
    steps.insert(steps.end(), night.again->step_ms.begin(), night.again->step_ms.end());
  }
  judgement.step_ms = quantile(steps, kQuartile);
  judgement.launches = steps.size();
  judgement.reference_nights = static_cast<int>(reference.nights());
  if (reference.nights() > 0 && reference.machine() != night.machine) {
    judgement.verdict = TimeVerdict::not_comparable;
    judgement.reason = "found " + night.machine + ", the reference is of " + reference.machine();
    return;
  }
  if (reference.suffices()) {
    judge_night(judgement, night, reference);
    if (judgement.verdict == TimeVerdict::same || judgement.blind) {
      reference.add(value_of(night.first), night);
    }
    return;
  }
  judgement.reason = std::to_string(judgement.reference_nights) + " earlier nights, wanted " +
                     std::to_string(kFewestReference);
  reference.add(value_of(night.first), night);
}

}  // namespace

const char* name_of(TimeVerdict verdict) {
  switch (verdict) {
    case TimeVerdict::same: return "SAME";
    case TimeVerdict::regressed: return "REGRESSED";
    case TimeVerdict::improved: return "IMPROVED";
    case TimeVerdict::unknown: return "UNKNOWN";
    case TimeVerdict::not_comparable: return "NOT_COMPARABLE";
  }
  return "";
}

const char* name_of(Cause cause) {
  switch (cause) {
    case Cause::none: return "";
    case Cause::code: return "code";
    case Cause::library: return "library";
    case Cause::machine: return "machine";
  }
  return "";
}

std::vector<TimeJudgement> judge_nights(std::span<const NightTimes> nights) {
  Reference reference;
  std::vector<TimeJudgement> all;
  for (const NightTimes& night : nights) {
    TimeJudgement judgement;
    judgement.run = night.run;
    judgement.step_ms = std::numeric_limits<double>::quiet_NaN();
    judgement.smallest = std::numeric_limits<double>::quiet_NaN();
    judge_with(judgement, night, reference);
    all.push_back(std::move(judgement));
  }
  return all;
}

bool wants_rerun(std::span<const NightTimes> nights) {
  if (nights.empty() || nights.back().again) return false;
  const TimeJudgement last = judge_nights(nights).back();
  return last.verdict == TimeVerdict::unknown && last.smallest > 0.0 && !last.blind;
}

void judge_together(std::span<TimeJudgement> cells) {
  std::vector<double> p;
  for (const TimeJudgement& cell : cells) p.push_back(cell.p);
  const std::vector<bool> found = discoveries(p, kLevel);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!found[i] || cells[i].verdict != TimeVerdict::same || !is_large(cells[i])) continue;
    cells[i].verdict = cells[i].change > 0.0 ? TimeVerdict::regressed : TimeVerdict::improved;
    cells[i].cause = cells[i].cause == Cause::machine ? Cause::machine : Cause::code;
  }
}

}  // namespace harness::history
