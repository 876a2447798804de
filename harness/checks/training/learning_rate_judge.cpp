#include "harness/checks/training/learning_rate_judge.h"

#include <algorithm>

#include "harness/judge/patterns.h"

namespace harness::checks {

LearningRates::LearningRates(const Evidence& evidence)
    : evidence_(evidence),
      config_(evidence.the_case.scenario.training.optimizer),
      rates_(series_of(evidence, "lr")) {
  for (std::int64_t step = 1; step <= evidence.the_case.scenario.training.steps; ++step) {
    largest_ = std::max(largest_, scheduled_rate(config_, step));
  }
}

double LearningRates::read(int rank,
                           std::int64_t step,
                           std::int64_t number,
                           ResultBuilder& result) {
  const double wanted = scheduled_rate(config_, number);
  const Sample* row = rates_.find({rank, step});
  if (row == nullptr) {
    result.missing("the learning rate of " + process_name(rank) + ", step " + std::to_string(step) +
                       ended_early(evidence_, rank),
                   site_of_rank(rank));
    return wanted;
  }
  const AppliedRate rate{step, number, row->value};
  if (wrong_.count(rank) > 0 || !is_scheduled(config_, rate)) wrong_[rank].push_back(rate);
  return row->value < wanted ? static_cast<double>(row->value) : wanted;
}

std::optional<Finding> LearningRates::finding() const {
  if (wrong_.empty()) return std::nullopt;
  const auto first_is_earlier = [](const auto& a, const auto& b) {
    return a.second.front().step < b.second.front().step;
  };
  const auto& [rank, rates] = *std::min_element(wrong_.begin(), wrong_.end(), first_is_earlier);
  const AppliedRate& first = rates.front();
  const RateLaw law =
      explain_rates(config_, evidence_.the_case.scenario.training.accumulate, rates);
  Finding finding = make_finding("SCHEDULE.LR", law.name.empty() ? "rate" : law.name);
  std::set<int> steps;
  for (const auto& [wrong_rank, of_rank] : wrong_) {
    finding.site.ranks.push_back(wrong_rank);
    for (const AppliedRate& rate : of_rank) {
      if (!is_scheduled(config_, rate)) steps.insert(static_cast<int>(rate.step));
    }
  }
  finding.site.op = "optimizer";
  finding.site.step = first.step;
  finding.site.detail["found"] = Real(first.found);
  finding.site.detail["wanted"] = scheduled_rate(config_, first.number);
  finding.site.detail["steps"] = to_ints(steps);
  finding.facts["wrong_steps"] = steps.size();
  put_law(law.name, law.fitted, finding.site);
  return finding;
}

}  // namespace harness::checks
