// Are the parameters bitwise the same on every rank after each optimiser step? With agreeing gradients they must be. And is a tied
// head the embedding, on every rank?
#include <tuple>

#include "harness/checks/course.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

using ParameterKey = std::tuple<std::int64_t, int, std::string>;  // step, rank, parameter

struct Divergence {
  std::int64_t step = 0;
  std::vector<std::string> params;
  std::set<int> off_ranks;
  bool majority = true;
  bool is_only = false;  // no state before it was recorded
};

Finding diverged(const Divergence& seen, std::size_t all) {
  Finding finding = make_finding("STATE.DIVERGED", seen.majority ? "majority" : "no_majority");
  finding.site = site_of_params(seen.params);
  finding.site.step = seen.step;
  if (seen.majority) finding.site.ranks = to_ints(seen.off_ranks);
  finding.facts = {{"count", seen.params.size()}, {"total", all}};
  put_some(finding, "params", seen.params);
  if (seen.step > 1 && !seen.is_only) finding.facts["agreed_after"] = seen.step - 1;
  return finding;
}

// Of a tied head the rank records what it multiplied with, beside the embedding.
constexpr const char* kTable = "embed.weight";
constexpr const char* kTied = "lm_head.weight";

class States {
 public:
  explicit States(const Evidence& evidence)
      : evidence_(evidence), course_(Course::of(evidence)), params_(course_.params) {
    // Less closely watched, ranks record the state that no step comes after.
    only_last_ = evidence.the_case.scenario.observe < kWatchValues;
    if (only_last_) course_.steps.erase(course_.steps.begin(), course_.steps.end() - 1);
    for (const auto& row : evidence.parameters) {
      if (row.process >= 0) hashes_.put({row.row.step, row.process, row.row.param}, row);
    }
  }

  CheckResult judge() {
    if (hashes_.all().empty()) return inconclusive("no parameter hash was recorded");
    const auto steps = static_cast<std::int64_t>(course_.steps.size());
    for (const std::int64_t step : course_.steps) {
      Divergence seen;
      seen.step = step;
      seen.is_only = only_last_;
      for (const std::string& param : params_) compare(param, seen);
      if (evidence_.the_case.scenario.model.tied_head) look_at_tie(step);
      if (seen.params.empty() || result_.has_findings()) continue;
      result_.found(diverged(seen, params_.size()));
    }
    if (!untied_.empty()) result_.found(untied());
    const std::string count = std::to_string(params_.size());
    const std::string after = " after " + (only_last_   ? std::string("the last step")
                                           : steps == 1 ? std::string("the step")
                                                        : "each of " + counted(steps, "step"));
    if (!sharded_.empty()) return result_.finish(of_pieces() + after);
    return result_.finish(evidence_.ranks() == 1
                              ? "one rank only: " + count + " hashes recorded" + after
                              : count + " parameters are bitwise equal on " +
                                    ranks_text(all_ranks(evidence_)) + after);
  }

 private:
  void look_at_tie(std::int64_t step) {
    for (const int rank : all_ranks(evidence_)) {
      const ParameterHash* table = hashes_.find({step, rank, kTable});
      const ParameterHash* head = hashes_.find({step, rank, kTied});
      if (head == nullptr || head->hash.empty()) {
        result_.missing("hash of the tied head of " + process_name(rank) + ", step " +
                            std::to_string(step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      } else if (table != nullptr && table->hash != head->hash) {
        untied_.emplace(rank, step);
      }
    }
  }

  [[nodiscard]] Finding untied() const {
    Finding finding = make_finding("STATE.DIVERGED", "tie");
    std::set<int> ranks;
    std::int64_t first = untied_.begin()->second;
    for (const auto& [rank, step] : untied_) {
      ranks.insert(rank);
      first = std::min(first, step);
    }
    finding.site = site_of_params({kTied});
    finding.site.ranks = to_ints(ranks);
    finding.site.step = first;
    finding.site.detail["tie"] = short_name(kTable);
    return finding;
  }

  void compare(const std::string& param, Divergence& seen) {
    std::map<std::string, std::map<int, std::string>> pieces;  // "" for the whole
    for (const int rank : all_ranks(evidence_)) {
      const ParameterHash* row = hashes_.find({seen.step, rank, param});
      if (row == nullptr && course_.has_sat_out(rank, seen.step)) continue;
      if (row == nullptr || row->hash.empty()) {
        result_.missing("parameter hashes of " + process_name(rank) + ", step " +
                            std::to_string(seen.step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      } else {
        pieces[row->piece][rank] = row->hash;
      }
    }
    for (const auto& [piece, of_rank] : pieces) {
      if (!piece.empty()) {
        sharded_.insert(param);
        alone_ = alone_ && of_rank.size() == 1;
      }
      take(param, of_rank, seen);
    }
  }

  static void take(const std::string& param,
                   const std::map<int, std::string>& of_rank,
                   Divergence& seen) {
    if (of_rank.size() < 2 || all_equal(of_rank)) return;
    if (seen.params.empty() || seen.params.back() != param) seen.params.push_back(param);
    const std::vector<int> off = minority(of_rank);
    if (off.empty()) seen.majority = false;
    seen.off_ranks.insert(off.begin(), off.end());
  }

  [[nodiscard]] std::string of_pieces() const {
    const std::size_t whole = params_.size() - sharded_.size();
    return counted(static_cast<std::int64_t>(sharded_.size()), "parameter") + " in pieces, " +
           (alone_ ? "each of one rank, so that none is compared with another"
                   : "equal on the ranks that hold the same") +
           (whole == 0 ? std::string()
                       : "; " + counted(static_cast<std::int64_t>(whole), "whole parameter") +
                             " bitwise equal on " + ranks_text(all_ranks(evidence_)));
  }

  const Evidence& evidence_;
  Course course_;
  const std::vector<std::string>& params_;
  Latest<ParameterKey, ParameterHash> hashes_;
  std::map<int, std::int64_t>
      untied_;  // by rank: the first step after which the head is not the embedding
  std::set<std::string> sharded_;
  bool alone_ = true;  // no piece is held by two ranks
  bool only_last_ = false;
  ResultBuilder result_;
};

}  // namespace

Check parameters_agree() {
  return {"parameters_agree",
          "parameters are bitwise equal on all ranks after each optimiser step",
          {"STATE.DIVERGED"},
          [](const Evidence& evidence) { return States(evidence).judge(); },
          kWatchProcesses};
}

}  // namespace harness::checks
