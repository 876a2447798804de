// Does the loss fall? The mean of the last quarter of the steps against that of the first, beyond what the steps scatter. Where
// the source knows its floor on the same tokens, what is judged is the distance to it: without the luck of the draw.
#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/checks/list.h"
#include "harness/checks/process/least_squares.h"
#include "harness/checks/series.h"
#include "harness/checks/training/visible_floor.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kFewestSteps = 20;  // five a quarter
constexpr double kFallStandardErrors = 4.0;
constexpr double kReached = 0.02;  // nats above the floor

struct Quarter {
  double mean = 0.0;
  double error = 0.0;  // of the mean; the fall within the quarter is no scatter
};

Quarter quarter_of(const std::vector<double>& values) {
  std::vector<double> positions(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) positions[i] = static_cast<double>(i);
  const Line line = fit_line(positions, values);
  return {line.mean, line.scatter / std::sqrt(static_cast<double>(values.size()))};
}

class FallJudge {
 public:
  explicit FallJudge(const Evidence& evidence)
      : evidence_(evidence),
        visible_(visible_floor(evidence.the_case.scenario)),
        losses_(series_of(evidence, "loss")),
        floors_(series_of(evidence, "source_floor")) {}

  CheckResult judge() {
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    if (steps < kFewestSteps) {
      return inconclusive("found " + std::to_string(steps) + " steps, wanted at least " +
                          std::to_string(kFewestSteps) + " to tell whether the loss falls");
    }
    floor_known_ = std::any_of(floors_.all().begin(), floors_.all().end(), [](const auto& entry) {
      return std::isfinite(entry.second->row.value);
    });
    std::vector<double> values;
    for (std::int64_t step = 1; step <= steps; ++step) {
      if (const auto value = value_of(step)) values.push_back(*value);
    }
    if (!result_.has_missing()) judge_quarters(values);
    return result_.finish(words_);
  }

 private:
  // Mean over the ranks: the loss, or its distance to the floor.
  std::optional<double> value_of(std::int64_t step) {
    double sum = 0.0;
    for (const int rank : all_ranks(evidence_)) {
      const Sample* loss = losses_.find({rank, step});
      const Sample* floor = floors_.find({rank, step});
      if (loss == nullptr || (floor_known_ && floor == nullptr)) {
        result_.missing(std::string(loss == nullptr ? "the loss" : "the floor") + " of " +
                        process_name(rank) + ", step " + std::to_string(step) +
                        ended_early(evidence_, rank));
        return std::nullopt;
      }
      sum += loss->value - (floor_known_ ? visible_.value_or(floor->value) : 0.0);
    }
    return sum / static_cast<double>(evidence_.ranks());
  }

  void judge_quarters(const std::vector<double>& values) {
    const auto size = static_cast<std::ptrdiff_t>(values.size() / 4);
    const Quarter first = quarter_of({values.begin(), values.begin() + size});
    const Quarter last = quarter_of({values.end() - size, values.end()});
    const double fall = first.mean - last.mean;
    const double noise = kFallStandardErrors * std::hypot(first.error, last.error);
    const bool reached = floor_known_ && last.mean <= kReached;
    result_.measured("fall_nats", fall, noise);
    if (floor_known_) result_.measured("above_floor_nats", last.mean, kReached);
    const std::string what = floor_known_ ? "the distance of the loss to its floor" : "the loss";
    words_ = what + " falls by " + nsa::to_text(fall, 3) + " nats from the first quarter of the " +
             "steps to the last (noise " + nsa::to_text(noise, 2) + ")";
    if (floor_known_) words_ += reached ? "; the floor is reached" : "; the floor is not reached";
    if (!(fall > noise) && !reached) {
      result_.found(not_falling(what, first, last, noise));
    } else if (evidence_.the_case.scenario.training.reaches_floor && !reached) {
      if (floor_known_) {
        result_.found(not_reached(last));
      } else {
        result_.missing("the floor of the source, which the loss shall reach");
      }
    }
  }

  [[nodiscard]] static Finding not_reached(const Quarter& last) {
    Finding finding = make_finding("LOSS.NOT_FALLING", "above_floor");
    finding.site.detail["above_floor_nats"] = Real(last.mean);
    finding.facts["reach_nats"] = kReached;
    return finding;
  }

  [[nodiscard]] static Finding not_falling(const std::string& what,
                                           const Quarter& first,
                                           const Quarter& last,
                                           double noise) {
    Finding finding = make_finding("LOSS.NOT_FALLING", "flat");
    finding.site.detail["first_quarter_nats"] = Real(first.mean);
    finding.site.detail["last_quarter_nats"] = Real(last.mean);
    finding.site.detail["noise_nats"] = Real(noise);
    finding.facts["quantity"] = what;
    return finding;
  }

  const Evidence& evidence_;
  std::optional<double> visible_;
  Series losses_;
  Series floors_;
  bool floor_known_ = false;
  std::string words_;
  ResultBuilder result_;
};

}  // namespace

Check loss_falls() {
  return {"loss_falls",
          "the loss of the last quarter of the steps is below that of the first",
          {"LOSS.NOT_FALLING"},
          [](const Evidence& evidence) { return FallJudge(evidence).judge(); },
          kWatchEvents};
}

}  // namespace harness::checks
