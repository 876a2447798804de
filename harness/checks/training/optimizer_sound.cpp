// Does the optimiser do what it says? The learning rate is the schedule's, no step is skipped, and what a step wants of a
// parameter arrives in its stored value: an update below half a unit in the last place is lost, though every number looks
// right.
#include <algorithm>
#include <cmath>

#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/training/learning_rate_judge.h"
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

class OptimizerJudge {
 public:
  explicit OptimizerJudge(const Evidence& evidence)
      : evidence_(evidence), skips_(evidence), rates_(evidence) {
    Latest<std::pair<RankStep, std::string>, Update> latest;
    for (const auto& row : evidence.updates) {
      if (row.process >= 0) latest.put({{row.process, row.row.step}, row.row.param}, row);
    }
    for (const auto& [key, row] : latest.all()) updates_[key.first].push_back(&row->row);
  }

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    if (!skipped_.empty()) result_.found(skipped());
    if (auto wrong = rates_.finding()) result_.found(std::move(*wrong));
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
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      const auto at = updates_.find({rank, step});
      if (at == updates_.end()) {
        result_.missing("the update ledger of " + process_name(rank) + ", step " +
                            std::to_string(step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      } else if (skips_.skipped(rank, step, at->second)) {
        skipped.insert(step);
        if (skips_.uncounted(rank, step, at->second)) uncounted_.insert(static_cast<int>(step));
        continue;  // no rate was applied
      }
      ++applied;
      const double rate = rates_.read(rank, step, applied, result_);
      const bool large = rate >= kLargeRate * rates_.largest();
      if (at != updates_.end() && large) judge_updates(rank, step, at->second);
    }
    keep_skipped(rank, skipped);
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
    const bool by_nobody =
        std::includes(uncounted_.begin(), uncounted_.end(), skipped_.begin(), skipped_.end());
    Finding finding = make_finding("OPT.SKIPPED", by_nobody ? "uncounted" : "steps");
    finding.site.ranks = to_ints(skipped_ranks_);
    finding.site.op = "optimizer";
    finding.site.step = *skipped_.begin();
    finding.site.detail["steps"] = to_ints(skipped_);
    finding.facts = {{"skipped", skipped_.size()},
                     {"total", evidence_.the_case.scenario.training.steps}};
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
  SkippedSteps skips_;
  LearningRates rates_;
  std::map<RankStep, std::vector<const Update*>> updates_;
  std::set<int> skipped_;
  std::set<int> explained_;  // skipped too
  std::set<int> uncounted_;  // of both
  std::set<int> skipped_ranks_;
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
