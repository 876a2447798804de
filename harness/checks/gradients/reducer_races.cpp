#include "harness/checks/gradients/reducer_races.h"

#include <map>
#include <set>

#include "harness/checks/parameter_names.h"

namespace harness::checks {
namespace {

using HashesOfCalls = std::map<std::string, std::string>;  // by call

constexpr std::pair<const char*, const char*> kReorderedCalls[] = {
    {"as_it_is", "no stream was late"},
    {"late", "the current stream was late"},
    {"others_late", "the other streams were late"}};

struct RacedGradients {
  std::set<std::string> params;
  std::set<int> ranks;
  std::set<int> buckets;
  std::set<std::string> late;
};

class ReducerRaces {
 public:
  explicit ReducerRaces(const Evidence& evidence)
      : evidence_(evidence), step_(evidence.the_case.scenario.training.steps) {
    for (const auto& row : evidence.reduced_again) {
      if (row.process < 0 || row.row.step != step_) continue;
      hashes_[row.process][row.row.param][row.row.call] = row.row.hash;
      buckets_[row.row.param] = row.row.bucket;
    }
  }

  CheckResult judge() {
    const std::vector<std::string> params = parameter_names(evidence_.the_case.scenario.model);
    for (const int rank : all_ranks(evidence_)) {
      for (const std::string& param : params) compare(rank, param);
    }
    if (!raced_.params.empty()) result_.found(finding());
    const bool on_card = evidence_.the_case.scenario.parallel.device == nsa::Device::cuda;
    result_.measured("gradients_reduced_again", static_cast<double>(compared_));
    result_.measured("gradients_not_repeatable", static_cast<double>(varying_));
    if (compared_ == 0 && raced_.params.empty()) {
      result_.missing("a gradient that is the same when the step is done again in series");
    }
    return result_.finish(
        std::to_string(compared_) + " reduced gradients of " + ranks_text(all_ranks(evidence_)) +
        " are the same, bit by bit, in five backwards of step " + std::to_string(step_) +
        (on_card ? "; late streams change no bit" : ": without a card no stream was late") +
        (varying_ == 0
             ? std::string()
             : "; " + std::to_string(varying_) + " differ also in series, and tell nothing"));
  }

 private:
  void compare(int rank, const std::string& param) {
    const auto of_rank = hashes_.find(rank);
    const HashesOfCalls none;
    const HashesOfCalls* calls = &none;
    if (of_rank != hashes_.end()) {
      const auto at = of_rank->second.find(param);
      if (at != of_rank->second.end()) calls = &at->second;
    }
    for (const char* call : kReducedCalls) {
      if (calls->count(call) > 0) continue;
      result_.missing(
          "the repeated backwards of " + process_name(rank) + ended_early(evidence_, rank),
          site_of_rank(rank));
      return;
    }
    const std::string& in_series = calls->at("in_series");
    if (in_series.empty() || in_series != calls->at("in_series_2")) {
      varying_ += in_series.empty() ? 0 : 1;
      return;
    }
    ++compared_;
    for (const auto& [call, late] : kReorderedCalls) {
      if (calls->at(call) == in_series) continue;
      raced_.params.insert(param);
      raced_.ranks.insert(rank);
      raced_.buckets.insert(buckets_.at(param));
      raced_.late.insert(late);
    }
  }

  [[nodiscard]] Finding finding() const {
    Finding finding = make_finding("RACE.STREAM", "reduced");
    const std::vector<std::string> params(raced_.params.begin(), raced_.params.end());
    finding.site = site_of_params(params);
    finding.site.step = step_;
    finding.site.ranks = to_ints(raced_.ranks);
    finding.site.op = "grad_sync";
    finding.site.phase = "backward";
    if (raced_.buckets.size() == 1) finding.site.bucket = *raced_.buckets.begin();
    finding.site.detail["late"] = raced_.late;
    finding.facts["count"] = params.size();
    finding.facts.put_some("params", params);
    return finding;
  }

  const Evidence& evidence_;
  std::int64_t step_;
  std::map<int, std::map<std::string, HashesOfCalls>> hashes_;  // by rank and parameter
  std::map<std::string, int> buckets_;
  RacedGradients raced_;
  std::int64_t compared_ = 0;
  std::int64_t varying_ = 0;
  ResultBuilder result_;
};

}  // namespace

CheckResult judge_reducer_races(const Evidence& evidence) {
  return ReducerRaces(evidence).judge();
}

}  // namespace harness::checks
