// Does every rank take the same optimiser steps, and was each of them looked at? Judged from the phases that ranks report in every
// step, so also for steps whose tensors were not recorded. The verdict on a training of the user's own speaks of these steps: a
// check that passes on the recorded steps says nothing about the others.
#include <algorithm>

#include "harness/checks/course.h"
#include "harness/checks/gradients/travelling_type.h"
#include "harness/checks/list.h"
#include "harness/checks/result.h"
#include "harness/evidence/not_hooked.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

using Steps = std::set<std::int64_t>;

struct OfRank {
  Steps begun;     // a forward or a backward
  Steps updated;   // the optimiser was called
  Steps compared;  // parameters and gradients were recorded, one by one or as a digest
  Steps losses;    // what the backward began with
  Steps reduced;   // gradients were sent to other ranks
  std::int64_t forwards = 0;
  std::int64_t backwards = 0;
  std::int64_t reductions = 0;
  std::int64_t folded = 0;  // steps in stretches, in none of the sets above
};

Steps without(const Steps& all, const Steps& some) {
  Steps rest;
  std::set_difference(
      all.begin(), all.end(), some.begin(), some.end(), std::inserter(rest, rest.end()));
  return rest;
}

using Stretches = std::vector<std::pair<std::int64_t, std::int64_t>>;  // first and last step

// "step 3", "steps 1-10, 100"
std::string steps_text(const Steps& steps, const Stretches& folded = {}) {
  std::set<int> numbers;
  for (const std::int64_t step : steps) numbers.insert(static_cast<int>(step));
  for (const auto& [first, last] : folded) {
    for (std::int64_t step = first; step <= last; ++step) numbers.insert(static_cast<int>(step));
  }
  return (numbers.size() == 1 ? "step " : "steps ") + nsa::ranges_text(to_ints(numbers));
}

class EveryStep {
 public:
  explicit EveryStep(const Evidence& evidence)
      : evidence_(evidence), sat_out_(sat_out_steps(evidence)), silent_(not_hooked(evidence)) {
    for (const auto& row : evidence.phases) {
      if (row.process < 0 || row.row.step < 1) continue;
      OfRank& rank = ranks_[row.process];
      const std::string& phase = row.row.phase;
      if (phase == "forward") ++rank.forwards;
      if (phase == "backward") ++rank.backwards;
      if (phase == "forward" || phase == "backward") rank.begun.insert(row.row.step);
      if (phase == "optimizer") rank.updated.insert(row.row.step);
    }
    read_tensors();
    read_stretches();
    for (const auto& row : evidence.samples) {
      if (row.process >= 0 && row.row.metric == "loss")
        ranks_[row.process].losses.insert(row.row.step);
    }
    for (const auto& row : evidence.collectives) {
      if (row.process < 0 || !(sums_gradients(row.row) || scatters_gradients(row.row))) continue;
      ++ranks_[row.process].reductions;
      ranks_[row.process].reduced.insert(row.row.step);
    }
  }

  CheckResult judge() {
    if (!silent_.empty()) {
      result_.missing(
          "not hooked: no training was seen on " + ranks_text(to_ints(silent_)) +
          ". Either no optimiser of PyTorch was used there, or Python left the hook of "
          "--watch out, as it does with -I, -E, -S, another PYTHONPATH, or before 3.10");
    }
    for (const int rank : all_ranks(evidence_)) {
      if (ranks_[rank].begun.empty() && silent_.count(rank) == 0) {
        result_.missing("any step of " + process_name(rank) + ended_early(evidence_, rank),
                        site_of_rank(rank));
      }
      updated_.insert(ranks_[rank].updated.begin(), ranks_[rank].updated.end());
    }
    if (updated_.empty() && silent_.empty()) result_.missing("any optimiser step of any rank");
    compare_updates();
    demand_changes();
    demand_tensors();
    demand_losses();
    demand_reductions();
    name_not_judged();
    return result_.finish(summary());
  }

 private:
  void read_tensors() {
    std::map<int, Steps> gradients;
    for (const auto& row : evidence_.gradients) {
      if (row.process >= 0) gradients[row.process].insert(row.row.step);
    }
    for (const auto& row : evidence_.parameters) {
      const auto of_rank = gradients.find(row.process);
      if (of_rank == gradients.end() || of_rank->second.count(row.row.step) == 0) continue;
      ranks_[row.process].compared.insert(row.row.step);
    }
    // A class without tensors has no digest: a step was looked at if it has one of anything that was trained.
    for (const auto& row : evidence_.digests) {
      if (row.process < 0 || row.row.parameters.empty()) continue;
      ranks_[row.process].compared.insert(row.row.step);
    }
  }

  // In each step of a stretch each of its ranks did all that is asked for here. So these steps are in no set: what a rank lacks is
  // not among them. They are counted, and named where steps are.
  void read_stretches() {
    for (const auto& from : evidence_.stretches) {
      const Stretch& stretch = from.row;
      std::set<int> others;
      for (const int rank : all_ranks(evidence_)) others.insert(rank);
      for (const Stretch::OfRank& of : stretch.of_ranks) {
        OfRank& rank = ranks_[of.rank];
        rank.forwards += stretch.forwards;
        rank.backwards += stretch.backwards;
        rank.reductions += stretch.sums;
        rank.folded += stretch.steps();
        others.erase(of.rank);
      }
      folded_count_ += stretch.steps();
      folded_.emplace_back(stretch.first, stretch.last);
      if (others.empty()) continue;
      result_.missing("what " + ranks_text(to_ints(others)) + " did in " +
                      steps_text({}, {folded_.back()}) + ", which the others took alike");
    }
  }

  [[nodiscard]] std::int64_t count(const Steps& steps) const {
    return static_cast<std::int64_t>(steps.size()) + folded_count_;
  }

  // Ranks may take fewer steps by right where DistributedDataParallel lets them join.
  [[nodiscard]] bool may_take_fewer() const { return any_rank_reports(evidence_, kJoinsFact); }

  // A rank leaves a step out that another one takes: it went on to a later one, or it ended well without it.
  void compare_updates() {
    std::map<int, Steps> left_out;
    for (const auto& [rank, seen] : ranks_) {
      if (silent_.count(rank) > 0) continue;
      for (const std::int64_t step : without(updated_, seen.updated)) {
        if (sat_out_.count({rank, step}) > 0) continue;
        const bool went_on = !seen.begun.empty() && *seen.begun.rbegin() > step;
        const bool ended_without_it = evidence_.finished(rank) && !may_take_fewer();
        if (went_on || ended_without_it) left_out[rank].insert(step);
      }
    }
    std::map<Steps, std::vector<int>> alike;
    for (const auto& [rank, steps] : left_out) alike[steps].push_back(rank);
    for (const auto& [steps, ranks] : alike) result_.found(skipped(steps, ranks));
  }

  [[nodiscard]] Finding skipped(const Steps& steps, const std::vector<int>& ranks) const {
    std::vector<int> others;
    for (const auto& [rank, seen] : ranks_) {
      if (seen.updated.count(*steps.begin()) > 0) others.push_back(rank);
    }
    Finding finding = make_finding("OPT.SKIPPED", "rank");
    finding.site.op = "optimizer";
    finding.site.ranks = ranks;
    finding.site.step = *steps.begin();
    finding.facts = {{"skipped", steps.size()},
                     {"total", count(updated_)},
                     {"which", steps_text(steps)},
                     {"others", ranks_text(others)}};
    return finding;
  }

  // An optimiser that was made for another model takes its steps, and no weight of this one moves.
  void demand_changes() {
    constexpr std::int64_t kFewest = 3;  // steps; a warm-up may begin with a rate of zero
    std::map<int, std::set<std::string>> states;
    std::map<int, std::int64_t> taken;
    for (const auto& row : evidence_.digests) {
      if (row.process < 0 || row.row.taken == 0 || row.row.parameters.empty()) continue;
      states[row.process].insert(row.row.parameters);
      ++taken[row.process];
    }
    for (const auto& from : evidence_.stretches) {
      for (const Stretch::OfRank& of : from.row.of_ranks) {
        states[of.rank].insert(of.parameters);
        if (of.moved) states[of.rank].insert("another");
        taken[of.rank] += from.row.steps();
      }
    }
    std::vector<int> ranks;
    for (const auto& [rank, found] : states) {
      if (found.size() == 1 && taken[rank] >= kFewest) ranks.push_back(rank);
    }
    if (ranks.empty()) return;
    Finding finding = make_finding("OPT.UPDATE_LOST", "unchanged");
    finding.site.op = "optimizer";
    finding.site.ranks = ranks;
    finding.site.step = 1;
    finding.facts = {{"total", taken[ranks.front()]}};
    result_.found(std::move(finding));
  }

  void demand_tensors() {
    Steps compared = updated_;
    bool any = false;
    for (const auto& [rank, seen] : ranks_) {
      any = any || !seen.compared.empty();
      for (const std::int64_t step : without(seen.updated, seen.compared)) compared.erase(step);
    }
    compared_ = compared;
    const Steps rest = without(updated_, compared);
    if (!any || rest.empty()) return;  // without any row the checks of gradients say so
    result_.missing("looked at " + looked_at() + ": gradients, weights and batches of " +
                    steps_text(rest) +
                    " are not known (watch(model, optimizer, every=1) looks at each step)");
  }

  void demand_losses() {
    std::map<Steps, std::vector<int>> lacking;
    for (const auto& [rank, seen] : ranks_) {
      const Steps rest = without(seen.updated, seen.losses);
      if (!rest.empty()) lacking[rest].push_back(rank);
    }
    for (const auto& [steps, ranks] : lacking) {
      result_.missing("the loss of " + steps_text(steps) + " on " + ranks_text(ranks));
    }
  }

  // A training that reduces gradients and then stops to do so on all ranks.
  void demand_reductions() {
    Steps reduced;
    for (const auto& [rank, seen] : ranks_)
      reduced.insert(seen.reduced.begin(), seen.reduced.end());
    if (evidence_.ranks() == 1 || reduced.empty()) return;
    Steps rest = without(updated_, reduced);
    rest.erase(rest.begin(), rest.upper_bound(*reduced.begin()));
    if (rest.empty()) return;
    result_.missing("why the optimiser took " + steps_text(rest) +
                    " without a reduction of gradients on any rank, as there was one in " +
                    steps_text(reduced, folded_));
  }

  void name_not_judged() {
    std::map<std::string, std::set<int>> sentences;
    for (const auto& row : evidence_.facts) {
      if (row.process < 0) continue;
      if (row.row.name == kNotJudgedFact) sentences[row.row.value].insert(row.process);
      if (row.row.name == kLinesLostFact) {
        sentences[row.row.value +
                  " lines of the record, because nsa-harness did not read them in time"]
            .insert(row.process);
      }
    }
    for (const auto& [sentence, ranks] : sentences) {
      const bool all = ranks.size() == all_ranks(evidence_).size();
      result_.missing("not judged" + (all ? "" : " on " + ranks_text(to_ints(ranks))) + ": " +
                      sentence);
    }
  }

  // "each of 6 steps", "steps 1-10 of 40"
  [[nodiscard]] std::string looked_at() const {
    if (compared_.size() == updated_.size()) {
      return count(updated_) == 1 ? "the only step" : "each of " + counted_steps();
    }
    if (count(compared_) == 0) return "no tensor of " + counted_steps();
    return steps_text(compared_, folded_) + " of " + std::to_string(count(updated_));
  }

  [[nodiscard]] std::string counted_steps() const { return counted(count(updated_), "step"); }

  [[nodiscard]] std::string summary() const {
    std::string text = "looked at " + looked_at() + " on " + ranks_text(all_ranks(evidence_));
    std::map<std::string, std::vector<int>> alike;
    for (const auto& [rank, seen] : ranks_) {
      alike[counted(seen.forwards, "forward") + ", " + counted(seen.backwards, "backward") + ", " +
            counted(seen.reductions, "reduction") + ", " +
            counted(static_cast<std::int64_t>(seen.updated.size()) + seen.folded, "optimiser step")]
          .push_back(rank);
    }
    for (const auto& [counts, ranks] : alike) {
      text += (alike.size() == 1 ? ": " : "; " + ranks_text(ranks) + ": ") + counts;
    }
    return text + (alike.size() == 1 && ranks_.size() > 1 ? " each" : "");
  }

  const Evidence& evidence_;
  std::set<std::pair<int, std::int64_t>> sat_out_;
  Stretches folded_;
  std::int64_t folded_count_ = 0;  // steps in them
  std::set<int> silent_;           // nothing is known of their steps
  std::map<int, OfRank> ranks_;
  Steps updated_;   // by any rank
  Steps compared_;  // on every rank that took them
  ResultBuilder result_;
};

}  // namespace

Check steps_agree() {
  return {"steps_agree",
          "every rank takes the same optimiser steps, and each of them was looked at",
          {"OPT.SKIPPED", "OPT.UPDATE_LOST"},
          [](const Evidence& evidence) { return EveryStep(evidence).judge(); }};
}

}  // namespace harness::checks
