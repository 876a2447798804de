// Does the optimiser do what it says? The learning rate is the schedule's, no step is skipped, and what a step wants of a
// parameter arrives in its stored value: an update below half a unit in the last place is lost, though every number looks
// right.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/checks/list.h"
#include "harness/checks/params.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Share of a parameter's elements whose update may be lost: with float32 values next to none are.
constexpr double kMostLost = 0.01;
// Steps at less than this share of the largest learning rate are not judged for lost updates: at the small end of a schedule
// updates fall below the last place of any type.
constexpr double kLargeRate = 0.5;
// Of a learning rate computed in double by another program.
constexpr double kRateRounding = 1e-12;

// Linear warm-up over optimiser steps, then a cosine to zero (SPEC 2). Steps count from 1.
double scheduled(const nsa::OptimizerConfig& config, std::int64_t step) {
  const auto done = static_cast<double>(step - 1);
  const auto warmup = static_cast<double>(config.warmup);
  if (done < warmup) return config.lr * (done + 1.0) / warmup;
  if (step > config.total) return 0.0;
  const double share = (done - warmup) / (static_cast<double>(config.total) - warmup);
  return config.lr * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
}

struct Loss {  // of one step and rank
  std::vector<std::string> params;
  std::int64_t judged = 0;
  std::int64_t wanted = 0;
  std::int64_t lost = 0;
  std::set<std::string> dtypes;
};

class OptimizerJudge {
 public:
  explicit OptimizerJudge(const Evidence& evidence)
      : evidence_(evidence), config_(evidence.the_case.scenario.training.optimizer) {
    for (const auto& row : evidence.samples) {
      if (row.process >= 0 && row.row.metric == "lr") rates_.put({row.process, row.row.step}, row);
    }
    for (const auto& row : evidence.updates) {
      if (row.process < 0) continue;
      updates_[{row.process, row.row.step}].push_back(&row.row);
    }
  }

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    if (!skipped_.empty()) result_.found(skipped());
    if (!wrong_rate_ranks_.empty()) result_.found(wrong_rate());
    if (!lost_ranks_.empty()) result_.found(lost());
    result_.measured("largest_share_of_lost_updates", worst_share_, kMostLost);
    return result_.finish("the learning rate is the schedule's in " +
                          counted(evidence_.the_case.scenario.training.steps, "step") +
                          ", none is skipped, and at most " +
                          nsa::to_text(100.0 * worst_share_, 2) +
                          " % of a parameter's updates are lost");
  }

 private:
  void judge_rank(int rank) {
    std::int64_t applied = 0;
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      judge_rate(rank, step, applied + 1);
      const auto at = updates_.find({rank, step});
      if (at == updates_.end()) {
        result_.missing("the update ledger of " + process_name(rank) + ", step " +
                        std::to_string(step) + ended_early(evidence_, rank));
        ++applied;
        continue;
      }
      const bool skips = std::any_of(
          at->second.begin(), at->second.end(), [](const Update* row) { return row->skipped; });
      if (skips) {
        skipped_.insert(static_cast<int>(step));
        skipped_ranks_.insert(rank);
        continue;
      }
      ++applied;
      if (scheduled(config_, applied) >= kLargeRate * largest_rate()) {
        judge_updates(rank, step, at->second);
      }
    }
  }

  // `number` counts optimiser steps that were done: one that is skipped does not advance the schedule.
  void judge_rate(int rank, std::int64_t step, std::int64_t number) {
    const Sample* row = rates_.find({rank, step});
    if (row == nullptr) {
      result_.missing("the learning rate of " + process_name(rank) + ", step " +
                      std::to_string(step) + ended_early(evidence_, rank));
      return;
    }
    const double wanted = scheduled(config_, number);
    const double found = row->value;
    if (std::abs(found - wanted) <= kRateRounding * std::max(config_.lr, wanted)) return;
    if (wrong_rate_ranks_.empty() || step < rate_step_) {
      rate_step_ = step;
      rate_found_ = found;
      rate_wanted_ = wanted;
    }
    wrong_rate_ranks_.insert(rank);
    wrong_rate_steps_.insert(static_cast<int>(step));
  }

  // Of the steps that the case does.
  [[nodiscard]] double largest_rate() const {
    double most = 0.0;
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      most = std::max(most, scheduled(config_, step));
    }
    return most;
  }

  void judge_updates(int rank, std::int64_t step, const std::vector<const Update*>& rows) {
    Loss loss;
    for (const Update* row : rows) {
      if (row->wanted <= 0) continue;
      ++loss.judged;
      loss.wanted += row->wanted;
      loss.lost += row->lost;
      const double share = static_cast<double>(row->lost) / static_cast<double>(row->wanted);
      worst_share_ = std::max(worst_share_, share);
      if (share <= kMostLost) continue;
      loss.params.push_back(row->param);
      loss.dtypes.insert(row->dtype);
    }
    if (loss.params.empty()) return;
    lost_ranks_.insert(rank);
    if (lost_step_ != 0 && step >= lost_step_) return;
    lost_step_ = step;
    std::sort(loss.params.begin(), loss.params.end());
    loss_ = std::move(loss);
  }

  [[nodiscard]] Finding skipped() const {
    Finding finding;
    finding.code = "OPT.SKIPPED";
    finding.site.ranks = to_ints(skipped_ranks_);
    finding.site.op = "optimizer";
    finding.site.step = *skipped_.begin();
    finding.site.detail["steps"] = to_ints(skipped_);
    finding.statement = counted(static_cast<std::int64_t>(skipped_.size()), "step") + " of " +
                        std::to_string(evidence_.the_case.scenario.training.steps) + " (" +
                        nsa::ranges_text(to_ints(skipped_)) +
                        ") changed no parameter: the optimiser skipped them on " +
                        ranks_text(finding.site.ranks);
    finding.ruled_out = "not a zero gradient: the step itself was left out";
    finding.next_action = "look at the loss scale and at which gradients overflow in these steps";
    return finding;
  }

  [[nodiscard]] Finding wrong_rate() const {
    Finding finding;
    finding.code = "SCHEDULE.LR";
    finding.site.ranks = to_ints(wrong_rate_ranks_);
    finding.site.op = "optimizer";
    finding.site.step = rate_step_;
    finding.site.detail["lr"] = rate_found_;
    finding.site.detail["scheduled"] = rate_wanted_;
    finding.site.detail["steps"] = to_ints(wrong_rate_steps_);
    finding.statement = "the learning rate of step " + std::to_string(rate_step_) + " is " +
                        nsa::to_text(rate_found_, 6) + ", the schedule says " +
                        nsa::to_text(rate_wanted_, 6) + "; wrong in " +
                        counted(static_cast<std::int64_t>(wrong_rate_steps_.size()), "step");
    finding.ruled_out =
        "not rounding: linear warm-up and cosine were computed in double from the configuration, "
        "over optimiser steps that were done";
    finding.next_action =
        "look at what advances the schedule: optimiser steps, not micro-steps, "
        "and none that was skipped";
    return finding;
  }

  [[nodiscard]] Finding lost() const {
    Finding finding;
    finding.code = "OPT.UPDATE_LOST";
    finding.site = site_of_params(loss_.params);
    finding.site.ranks = to_ints(lost_ranks_);
    finding.site.op = "optimizer";
    finding.site.step = lost_step_;
    const double of_params =
        static_cast<double>(loss_.params.size()) / static_cast<double>(loss_.judged);
    const double of_elements = static_cast<double>(loss_.lost) / static_cast<double>(loss_.wanted);
    const std::vector<std::string> dtypes(loss_.dtypes.begin(), loss_.dtypes.end());
    finding.site.detail["share_of_params"] = of_params;
    finding.site.detail["share_of_elements"] = of_elements;
    finding.site.detail["dtype"] = nsa::join(dtypes);
    finding.statement = "in step " + std::to_string(lost_step_) + " the updates of " +
                        std::to_string(loss_.params.size()) + " of " +
                        std::to_string(loss_.judged) +
                        " parameters are lost in part: " + nsa::to_text(100.0 * of_elements, 3) +
                        " % of all elements that have a gradient keep their stored value (" +
                        nsa::join(dtypes) + ")";
    finding.ruled_out =
        "not a missing gradient: it is not zero in these elements; not the small "
        "end of the schedule";
    finding.next_action =
        "keep float32 master weights: an update below half a unit in the last place vanishes";
    return finding;
  }

  const Evidence& evidence_;
  const nsa::OptimizerConfig& config_;
  Latest<std::pair<int, std::int64_t>, Sample> rates_;
  std::map<std::pair<int, std::int64_t>, std::vector<const Update*>> updates_;
  std::set<int> skipped_;
  std::set<int> skipped_ranks_;
  std::set<int> wrong_rate_ranks_;
  std::set<int> wrong_rate_steps_;
  std::int64_t rate_step_ = 0;
  double rate_found_ = 0.0;
  double rate_wanted_ = 0.0;
  std::set<int> lost_ranks_;
  std::int64_t lost_step_ = 0;
  Loss loss_;
  double worst_share_ = 0.0;
  ResultBuilder result_;
};

}  // namespace

Check optimizer_sound() {
  return {"optimizer_sound",
          "the learning rate is the schedule's, no step is skipped, and updates arrive in the "
          "stored parameters",
          {"OPT.UPDATE_LOST", "OPT.SKIPPED", "SCHEDULE.LR"},
          [](const Evidence& evidence) { return OptimizerJudge(evidence).judge(); }};
}

}  // namespace harness::checks
