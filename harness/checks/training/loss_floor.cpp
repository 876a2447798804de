// Is the loss below what its source allows? A source that knows its own probabilities p knows the least mean loss on the very
// tokens that were predicted, -mean log p. A model q that sees the past alone gains sum log(q/p) nats on it, and the mean of
// exp(that) over all continuations is 1 at most: a gain of ln(1/chance) happens with probability `chance` or less, whatever
// the model and the number of tokens (Markov's inequality). Where the model does not see as far as the source looks back, the
// floor is that of what it sees (visible_floor.h). Both this and 4 standard errors must be exceeded.
#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/checks/list.h"
#include "harness/checks/series.h"
#include "harness/checks/training/visible_floor.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr double kFloorStandardErrors = 4.0;
constexpr double kChance = 3.17e-5;  // of 4 standard errors on one side

struct Predicted {  // all ranks of one step
  std::int64_t step = 0;
  double tokens = 0.0;
  double gain = 0.0;      // nats, sum over the tokens of log(q/p): below zero for an honest model
  double variance = 0.0;  // of -sum log p, where the source tells it
  bool variance_known = true;
};

// Steps in a row whose gain is largest, as far as they were looked at: begins anew where nothing was gained.
struct Run {
  std::vector<Predicted> steps;
  double tokens = 0.0;
  double gain = 0.0;

  void add(const Predicted& next) {
    if (!(gain + next.gain > 0.0)) {
      *this = {};
      return;
    }
    steps.push_back(next);
    tokens += next.tokens;
    gain += next.gain;
  }

  // Of the gain a token: by what the source tells and by how steps differ, whichever is larger.
  [[nodiscard]] std::optional<double> standard_error() const {
    double told = 0.0;
    double spread = 0.0;
    bool all_told = true;
    for (const Predicted& step : steps) {
      told += step.variance;
      all_told = all_told && step.variance_known;
      const double rest = step.gain - gain / tokens * step.tokens;
      spread += rest * rest;
    }
    const auto count = static_cast<double>(steps.size());
    std::optional<double> error;
    if (all_told) error = std::sqrt(told) / tokens;
    if (count > 1.0) {
      const double seen = std::sqrt(spread * count / (count - 1.0)) / tokens;
      error = std::max(error.value_or(0.0), seen);
    }
    return error;
  }
};

class FloorJudge {
 public:
  explicit FloorJudge(const Evidence& evidence)
      : evidence_(evidence),
        visible_(visible_floor(evidence.the_case.scenario)),
        losses_(series_of(evidence, "loss")),
        floors_(series_of(evidence, "source_floor")),
        tokens_(series_of(evidence, "floor_tokens")),
        errors_(series_of(evidence, "floor_stderr")) {}

  CheckResult judge() {
    if (nobody_knows()) return inconclusive("the source of the data does not know its floor");
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    limit_ = std::log(static_cast<double>(std::max<std::int64_t>(steps, 1)) / kChance);
    Run run;
    for (std::int64_t step = 1; step <= steps; ++step) {
      const std::optional<Predicted> here = predicted(step);
      if (!here) continue;
      all_tokens_ += here->tokens;
      run.add(*here);
      most_ = std::max(most_, run.gain);
      judge_run(run);
    }
    result_.measured("tokens", all_tokens_);
    result_.measured("largest_gain_over_source_nats", most_, limit_);
    return result_.finish(
        "over " + nsa::to_text(all_tokens_) + " tokens the loss is never below " +
        (visible_ ? "the floor of what the window shows, " + nsa::to_text(*visible_, 4) + " nats, "
                  : std::string("the floor of the source ")) +
        "by more than chance explains");
  }

 private:
  [[nodiscard]] bool nobody_knows() const {
    return std::none_of(floors_.all().begin(), floors_.all().end(), [](const auto& entry) {
      return std::isfinite(entry.second->row.value);
    });
  }

  std::optional<Predicted> predicted(std::int64_t step) {
    Predicted all;
    all.step = step;
    for (const int rank : all_ranks(evidence_)) {
      const Sample* loss = losses_.find({rank, step});
      const Sample* floor = floors_.find({rank, step});
      const Sample* tokens = tokens_.find({rank, step});
      const bool whole = loss != nullptr && floor != nullptr && tokens != nullptr &&
                         std::isfinite(loss->value) && std::isfinite(floor->value) &&
                         tokens->value > 0.0;
      if (!whole) {
        result_.missing("loss, floor and tokens of " + process_name(rank) + ", step " +
                        std::to_string(step) + ended_early(evidence_, rank));
        return std::nullopt;
      }
      all.tokens += tokens->value;
      all.gain += tokens->value * (visible_.value_or(floor->value) - loss->value);
      const Sample* error = errors_.find({rank, step});
      all.variance_known = all.variance_known && error != nullptr && error->value >= 0.0;
      if (all.variance_known) all.variance += std::pow(tokens->value * error->value, 2.0);
    }
    return all;
  }

  void judge_run(const Run& run) {
    if (result_.has_findings() || !(run.gain > limit_)) return;
    const std::optional<double> error = run.standard_error();
    const double deficit = run.gain / run.tokens;
    if (!error || !(deficit > kFloorStandardErrors * *error)) return;
    Finding finding = make_finding("LOSS.BELOW_FLOOR", "below");
    finding.site.step = run.steps.back().step;
    finding.site.detail["first_step"] = run.steps.front().step;
    finding.site.detail["tokens"] = run.tokens;
    finding.site.detail["deficit_nats"] = deficit;
    finding.site.detail["standard_error_nats"] = *error;
    finding.facts["gain_nats"] = run.gain;
    result_.found(finding);
  }

  const Evidence& evidence_;
  std::optional<double> visible_;
  Series losses_;
  Series floors_;
  Series tokens_;
  Series errors_;
  double limit_ = 0.0;
  double all_tokens_ = 0.0;
  double most_ = 0.0;
  ResultBuilder result_;
};

}  // namespace

Check loss_floor() {
  return {"loss_floor",
          "the loss is not below what the source of the data allows on the same tokens",
          {"LOSS.BELOW_FLOOR"},
          [](const Evidence& evidence) { return FloorJudge(evidence).judge(); },
          kWatchEvents};
}

}  // namespace harness::checks
