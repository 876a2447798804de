// Are the parameters bitwise the same on every rank after each optimiser step? With agreeing gradients they must be. And is a tied
// head the embedding, on every rank? In a training of the user's own, steps whose parameters were not recorded one by one are
// judged from digests, and so are frozen parameters, buffers and what optimisers keep in every step.
#include <algorithm>
#include <tuple>

#include "harness/checks/agreement.h"
#include "harness/checks/course.h"
#include "harness/checks/departures.h"
#include "harness/checks/digests.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"

namespace harness::checks {
namespace {

using ParameterKey = std::tuple<std::int64_t, int, std::string>;  // step, rank, parameter

// Of a tied head the rank records what it multiplied with, beside the embedding.
constexpr const char* kTable = "embed.weight";
constexpr const char* kTied = "lm_head.weight";

class States {
 public:
  explicit States(const Evidence& evidence)
      : evidence_(evidence),
        course_(Course::of(evidence)),
        params_(course_.params),
        digests_(evidence) {
    // Less closely watched, ranks record the state that no step comes after.
    only_last_ = evidence.the_case.scenario.observe < kWatchValues;
    if (only_last_) course_.steps.erase(course_.steps.begin(), course_.steps.end() - 1);
    for (const auto& row : evidence.parameters) {
      if (row.process >= 0) hashes_.put({row.row.step, row.process, row.row.param}, row);
    }
  }

  CheckResult judge() {
    if (hashes_.all().empty() && digests_.empty()) {
      return inconclusive("no parameter hash was recorded");
    }
    const std::set<std::int64_t> recorded(course_.steps.begin(), course_.steps.end());
    const std::set<std::int64_t> all = digests_.steps_and(recorded);
    const auto steps = static_cast<std::int64_t>(all.size()) + digests_.folded();
    for (const std::int64_t step : all) {
      std::vector<Departure> diverged;  // one a parameter
      if (recorded.contains(step)) {
        for (const std::string& param : params_) compare(step, param, diverged);
      }
      if (evidence_.the_case.scenario.model.tied_head) look_at_tie(step);
      if (!result_.has_findings()) tell(diverged);
      look_at_own_buffers(step);
      // Also of what was recorded one by one: the digest is of what the script has made of it by the next step.
      for (const TensorClass& of : {kBufferClass, kParameterClass, kFrozenClass, kStateClass}) {
        compare_digests(step, of);
      }
    }
    if (!untied_.empty()) result_.found(untied());
    const std::string count = std::to_string(params_.size());
    const std::string after = " after " + (only_last_   ? std::string("the last step")
                                           : steps == 1 ? std::string("the step")
                                                        : "each of " + counted(steps, "step"));
    if (!in_pieces_.empty()) {
      return result_.finish(in_pieces_.text("parameter", params_.size(), all_ranks(evidence_)) +
                            after);
    }
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

  void compare(std::int64_t step, const std::string& param, std::vector<Departure>& diverged) {
    std::map<std::string, std::map<int, Held>> pieces;  // "" is the whole
    for (const int rank : all_ranks(evidence_)) {
      const ParameterHash* row = hashes_.find({step, rank, param});
      if (row == nullptr && course_.may_lack(param, rank, step)) continue;
      if (row == nullptr || row->hash.empty()) {
        result_.missing("parameter hashes of " + process_name(rank) + ", step " +
                            std::to_string(step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      } else {
        pieces[row->piece][rank] = Held::hash(row->hash);
      }
    }
    for (const auto& [piece, of_rank] : pieces) {
      in_pieces_.add(param, piece, of_rank.size());
      const Agreement<int> agreed = agree(of_rank);
      if (agreed.said != Said::differ) continue;
      Departure seen("STATE.DIVERGED", agreed.odd.empty() ? "no_majority" : "majority");
      seen.params = {param};
      seen.site.step = step;
      seen.site.ranks = agreed.odd;
      seen.facts["total"] = params_.size();
      if (step > 1 && !only_last_) seen.facts["agreed_after"] = step - 1;
      diverged.push_back(std::move(seen));
    }
  }

  // The first step in which a class differs: what comes later follows from it.
  void compare_digests(std::int64_t step, const TensorClass& of) {
    if (result_.has_findings()) return;
    for (const auto& [piece, of_rank] : digests_.held(step, of)) {
      const Agreement<int> agreed = agree(of_rank);
      if (agreed.said != Said::differ) continue;
      const bool buffers = of.name == kBufferClass.name;
      Departure seen("STATE.DIVERGED", buffers ? "buffers" : "digest");
      digests_.name_tensors(step, of, seen);
      seen.facts["peers"] = ranks_text(holders(of_rank));
      seen.site.step = step;
      seen.site.ranks = agreed.odd;
      if (!buffers) seen.facts["what"] = of.in_words;
      if (of.name == kStateClass.name && step > 1) {
        seen.facts["since"] =
            "A sixteenth of them is read in each step: they may have differed for up to 15 steps";
      }
      if (of.name == kParameterClass.name && digests_.said(step, kGradientClass) == Said::equal) {
        seen.facts["held"] = "the reduced gradients of this step are the same on all ranks";
      }
      report_differing(evidence_, std::move(seen), result_);
      return;
    }
  }

  // Buffers that nothing makes equal are a rank's own, as BatchNorm's statistics are. But if they were equal, and change on some
  // ranks alone, it may be a mistake.
  void look_at_own_buffers(std::int64_t step) {
    const auto now = digests_.steps().find(step);
    const auto before = digests_.steps().find(step - 1);
    if (now == digests_.steps().end() || before == digests_.steps().end()) return;
    std::map<int, Held> were;
    std::vector<int> changed;
    for (const auto& [rank, digest] : now->second) {
      const auto at = before->second.find(rank);
      if (digest->own_buffers.empty() || at == before->second.end()) return;
      were[rank] = Held::hash(at->second->own_buffers);
      if (digest->own_buffers != at->second->own_buffers) changed.push_back(rank);
    }
    const bool some = !changed.empty() && changed.size() < were.size();
    if (!some || agree(were).said != Said::equal) return;
    result_.missing("whether buffers are to be the same on all ranks: in step " +
                    std::to_string(step) + " they change on " + ranks_text(changed) +
                    " alone, and DistributedDataParallel does not hand them over");
  }

  // If one parameter has no majority, the wrong rank is not known.
  void tell(std::vector<Departure>& diverged) {
    const bool majority = std::none_of(diverged.begin(), diverged.end(), [](const Departure& seen) {
      return seen.site.ranks.empty();
    });
    Departures all;
    for (Departure& seen : diverged) {
      if (!majority) {
        seen.variant = "no_majority";
        seen.site.ranks.clear();
      }
      all.add(std::move(seen));
    }
    for (Finding& finding : all.findings()) {
      report_differing(evidence_, std::move(finding), result_);
    }
  }

  const Evidence& evidence_;
  Course course_;
  const std::vector<std::string>& params_;
  Latest<ParameterKey, ParameterHash> hashes_;
  std::map<int, std::int64_t>
      untied_;  // by rank: the first step after which the head is not the embedding
  Pieces in_pieces_;
  Digests digests_;
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
