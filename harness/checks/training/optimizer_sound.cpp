// Does the optimiser do what it says? The learning rate is the schedule's, no step is skipped, and what a step wants of a
// parameter arrives in its stored value: an update below half a unit in the last place is lost, though every number looks
// right.
#include <algorithm>
#include <cmath>

#include "harness/checks/list.h"
#include "harness/checks/params.h"
#include "harness/checks/training/rate_law.h"
#include "harness/checks/training/skipped_steps.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Share of a parameter's elements whose update may be lost: with float32 values next to none are.
constexpr double kMostLost = 0.01;
constexpr std::int64_t kFewElements =
    4096;  // from here on chance moves the share by less than itself
// Steps at less than this share of the largest learning rate are not judged for lost updates: at the small end of a schedule
// updates fall below the last place of any type.
constexpr double kLargeRate = 0.5;

struct LostUpdates {  // of one step and rank
  std::vector<std::string> params;
  std::int64_t judged = 0;
  std::int64_t wanted = 0;
  std::int64_t lost = 0;
  std::set<std::string> dtypes;
};

using RankRates = std::map<int, std::vector<AppliedRate>>;

class OptimizerJudge {
 public:
  explicit OptimizerJudge(const Evidence& evidence)
      : evidence_(evidence),
        config_(evidence.the_case.scenario.training.optimizer),
        skips_(evidence),
        rates_(series_of(evidence, "lr")) {
    Latest<std::pair<RankStep, std::string>, Update> latest;
    for (const auto& row : evidence.updates) {
      if (row.process >= 0) latest.put({{row.process, row.row.step}, row.row.param}, row);
    }
    for (const auto& [key, row] : latest.all()) updates_[key.first].push_back(&row->row);
  }

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    if (!skipped_.empty()) result_.found(skipped());
    if (!wrong_rates_.empty()) result_.found(wrong_rate());
    if (!lost_ranks_.empty()) result_.found(lost());
    result_.measured("largest_share_of_lost_updates", worst_share_, kMostLost);
    result_.measured("steps_skipped_for_the_loss_scale", static_cast<double>(explained_.size()));
    const std::string skips = explained_.empty()
                                  ? "none is skipped"
                                  : counted(static_cast<std::int64_t>(explained_.size()), "step") +
                                        " left out for the loss scale";
    return result_.finish("the learning rate is the schedule's in " +
                          counted(evidence_.the_case.scenario.training.steps, "step") + ", " +
                          skips + ", and at most " + nsa::to_text(100.0 * worst_share_, 2) +
                          " % of a parameter's updates are lost");
  }

 private:
  void judge_rank(int rank) {
    std::int64_t applied = 0;
    std::set<std::int64_t> skipped;
    std::vector<AppliedRate> rates;
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      const auto at = updates_.find({rank, step});
      if (at == updates_.end()) {
        result_.missing("the update ledger of " + process_name(rank) + ", step " +
                            std::to_string(step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      } else if (skips_.skipped(rank, step, at->second)) {
        skipped.insert(step);
        continue;  // no rate was applied
      }
      ++applied;
      const double rate = read_rate(rank, step, applied, rates);
      const bool large = rate >= kLargeRate * largest_rate();
      if (at != updates_.end() && large) judge_updates(rank, step, at->second);
    }
    keep_skipped(rank, skipped);
    keep_wrong_rates(rank, rates);
  }

  void keep_skipped(int rank, const std::set<std::int64_t>& skipped) {
    const SkippedSteps::Told told = skips_.tell(rank, skipped);
    for (const std::int64_t step : told.unknown) {
      result_.missing("the loss scale of " + process_name(rank) + " around step " +
                      std::to_string(step));
    }
    for (const std::int64_t step : skipped) {
      const bool wrong = told.unexplained.count(step) > 0;
      (wrong ? skipped_ : explained_).insert(static_cast<int>(step));
      if (wrong) skipped_ranks_.insert(rank);
    }
  }

  // `number` counts optimiser steps that were done: one that is skipped does not advance the schedule.
  // Gives the smaller of what was applied and what the schedule says: at small rates no update is judged.
  double read_rate(int rank,
                   std::int64_t step,
                   std::int64_t number,
                   std::vector<AppliedRate>& rates) {
    const double wanted = scheduled_rate(config_, number);
    const Sample* row = rates_.find({rank, step});
    if (row == nullptr) {
      result_.missing("the learning rate of " + process_name(rank) + ", step " +
                          std::to_string(step) + ended_early(evidence_, rank),
                      site_of_rank(rank));
      return wanted;
    }
    rates.push_back({step, number, row->value});
    return row->value < wanted ? static_cast<double>(row->value) : wanted;
  }

  void keep_wrong_rates(int rank, const std::vector<AppliedRate>& rates) {
    const auto is_wrong = [&](const AppliedRate& rate) { return !is_scheduled(config_, rate); };
    const auto first = std::find_if(rates.begin(), rates.end(), is_wrong);
    if (first == rates.end()) return;
    wrong_rates_[rank] = {first, rates.end()};
    for (const AppliedRate& rate : wrong_rates_[rank]) {
      if (is_wrong(rate)) wrong_rate_steps_.insert(static_cast<int>(rate.step));
    }
  }

  // Of the steps that the case does.
  [[nodiscard]] double largest_rate() const {
    double most = 0.0;
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      most = std::max(most, scheduled_rate(config_, step));
    }
    return most;
  }

  // Of so many elements; of a few, one may be lost by chance: three standard deviations and one more are allowed.
  [[nodiscard]] static double most_lost(std::int64_t wanted) {
    const double expected = kMostLost * static_cast<double>(wanted);
    return wanted < kFewElements ? expected + 3.0 * std::sqrt(expected) + 1.0 : expected;
  }

  void judge_updates(int rank, std::int64_t step, const std::vector<const Update*>& rows) {
    LostUpdates loss;
    for (const Update* row : rows) {
      if (row->wanted <= 0) continue;
      ++loss.judged;
      loss.wanted += row->wanted;
      loss.lost += row->lost;
      const double share = static_cast<double>(row->lost) / static_cast<double>(row->wanted);
      worst_share_ = std::max(worst_share_, share);
      if (static_cast<double>(row->lost) <= most_lost(row->wanted)) continue;
      loss.params.push_back(row->param);
      loss.dtypes.insert(row->dtype);
    }
    if (loss.params.empty()) return;
    lost_ranks_.insert(rank);
    if (lost_step_ != 0 && step >= lost_step_) return;
    lost_step_ = step;
    std::sort(loss.params.begin(), loss.params.end());
    lost_ = std::move(loss);
  }

  [[nodiscard]] Finding skipped() const {
    Finding finding = make_finding("OPT.SKIPPED", "steps");
    finding.site.ranks = to_ints(skipped_ranks_);
    finding.site.op = "optimizer";
    finding.site.step = *skipped_.begin();
    finding.site.detail["steps"] = to_ints(skipped_);
    finding.facts = {{"skipped", skipped_.size()},
                     {"total", evidence_.the_case.scenario.training.steps}};
    return finding;
  }

  // Of the rank whose rate is wrong first.
  [[nodiscard]] Finding wrong_rate() const {
    const auto first_is_earlier = [](const auto& a, const auto& b) {
      return a.second.front().step < b.second.front().step;
    };
    const auto& [rank, rates] =
        *std::min_element(wrong_rates_.begin(), wrong_rates_.end(), first_is_earlier);
    const AppliedRate& first = rates.front();
    const double wanted = scheduled_rate(config_, first.number);
    const std::string law =
        explain_rates(config_, evidence_.the_case.scenario.training.accumulate, rates);
    Finding finding = make_finding("SCHEDULE.LR", law.empty() ? "rate" : law);
    for (const auto& entry : wrong_rates_) finding.site.ranks.push_back(entry.first);
    finding.site.op = "optimizer";
    finding.site.step = first.step;
    finding.site.detail["found"] = Real(first.found);
    finding.site.detail["wanted"] = wanted;
    finding.site.detail["steps"] = to_ints(wrong_rate_steps_);
    finding.facts["wrong_steps"] = wrong_rate_steps_.size();
    if (!law.empty()) finding.site.detail["law"] = law;
    return finding;
  }

  [[nodiscard]] Finding lost() const {
    Finding finding = make_finding("OPT.UPDATE_LOST", "updates");
    finding.site = site_of_params(lost_.params);
    finding.site.ranks = to_ints(lost_ranks_);
    finding.site.op = "optimizer";
    finding.site.step = lost_step_;
    finding.site.detail["share_of_params"] =
        static_cast<double>(lost_.params.size()) / static_cast<double>(lost_.judged);
    finding.site.detail["share_of_elements"] =
        static_cast<double>(lost_.lost) / static_cast<double>(lost_.wanted);
    finding.site.detail["dtype"] =
        nsa::join(std::vector<std::string>(lost_.dtypes.begin(), lost_.dtypes.end()));
    finding.facts = {{"lost", lost_.params.size()}, {"total", lost_.judged}};
    return finding;
  }

  const Evidence& evidence_;
  const nsa::OptimizerConfig& config_;
  SkippedSteps skips_;
  Series rates_;
  std::map<RankStep, std::vector<const Update*>> updates_;
  std::set<int> skipped_;
  std::set<int> explained_;  // skipped too
  std::set<int> skipped_ranks_;
  RankRates wrong_rates_;  // from the first wrong one on
  std::set<int> wrong_rate_steps_;
  std::set<int> lost_ranks_;
  std::int64_t lost_step_ = 0;
  LostUpdates lost_;
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
