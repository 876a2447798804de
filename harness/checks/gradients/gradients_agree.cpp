// Is the gradient that enters the optimiser the same on every rank, reduced once? Judged from the hashes after reduction and from
// the ranks' own record of their all-reduces, never from the reducer's word alone. In a training of the user's own, steps whose
// gradients were not recorded one by one are judged from digests.
#include <algorithm>
#include <iterator>
#include <tuple>

#include "harness/checks/course.h"
#include "harness/checks/digests.h"
#include "harness/checks/gradients/ledger.h"
#include "harness/checks/gradients/local_norms.h"
#include "harness/checks/gradients/travelling_type.h"
#include "harness/checks/list.h"
#include "harness/checks/lives.h"
#include "harness/checks/parameter_names.h"
#include "harness/evidence/raised.h"

namespace harness::checks {
namespace {

using HeldByRank = std::map<int, Held>;

struct NotReduced {                 // of one step
  std::vector<std::string> differ;  // parameters whose hashes differ between ranks
  std::set<int> off_ranks;          // ranks outside the majority
  bool majority = true;
  std::map<int, std::vector<std::string>> unfinished;  // reduced false, by rank
  std::vector<int> silent;                             // ranks without an all-reduce
  std::map<std::string, HeldByRank> held;              // of the parameters that differ
};

// Two parameters whose reduced gradients are exchanged on some ranks: what the sum of one is there, is the sum of the other
// elsewhere, bit for bit.
bool exchanged(const HeldByRank& a, const HeldByRank& b) {
  for (const auto& [rank, of_a] : a) {
    for (const auto& [other, there_a] : a) {
      const auto of_b = b.find(rank);
      const auto there_b = b.find(other);
      if (of_b == b.end() || there_b == b.end() || of_a.bits == there_a.bits) continue;
      if (of_a.bits == there_b->second.bits && of_b->second.bits == there_a.bits) return true;
    }
  }
  return false;
}

class ReducedGradients {
 public:
  explicit ReducedGradients(const Evidence& evidence)
      : evidence_(evidence),
        ledger_(evidence),
        course_(Course::of(evidence)),
        params_(course_.params),
        digests_(evidence),
        micro_is_told_(std::any_of(evidence.collectives.begin(),
                                   evidence.collectives.end(),
                                   [](const auto& row) { return row.row.micro > 0; })) {}

  CheckResult judge() {
    if (evidence_.gradients.empty()) return inconclusive("no gradient row was recorded");
    const std::set<std::int64_t> recorded(course_.steps.begin(), course_.steps.end());
    const std::set<std::int64_t> all = digests_.steps_and(recorded);
    for (const std::int64_t step : all) {
      judge_digests(step, !recorded.contains(step));
      if (recorded.contains(step)) judge_step(step);
      reduced_before_ = reduced_before_ || recorded.contains(step);
    }
    if (there_ == 0 && !result_.has_findings()) result_.missing("a gradient that came in a step");
    if (evidence_.the_case.scenario.is_command() && !result_.has_findings()) {
      if (auto outlier = outlying_norm(evidence_)) result_.found(std::move(*outlier));
    }
    const auto steps = static_cast<std::int64_t>(all.size()) + digests_.folded();
    const std::string count = std::to_string(params_.size());
    return result_.finish(
        (!in_pieces_.empty() ? of_pieces(steps)
         : evidence_.ranks() == 1
             ? "one rank: the reduced gradient of " + count + " parameters is its own"
             : count + " gradients are the same on " + ranks_text(all_ranks(evidence_)) +
                   " after " +
                   (steps == 1 ? std::string("the step") : "each of " + counted(steps, "step")) +
                   ", reduced once") +
        (none_.empty() ? ""
                       : "; " + std::to_string(none_.size()) + " were not there in every step"));
  }

 private:
  void judge_step(std::int64_t step) {
    NotReduced seen;
    for (const std::string& param : params_) compare(step, param, seen);
    count_reductions(step, seen);
    if (!seen.silent.empty() && agree_though_unseen(step, seen)) seen.silent.clear();
    const bool reduced = seen.differ.empty() && seen.unfinished.empty() && seen.silent.empty();
    if (!told_) tell_crossed(step, seen);
    if (!reduced && !told_) tell(not_reduced(step, seen));
  }

  void tell(Finding finding) {
    told_ = true;
    report_differing(evidence_, std::move(finding), result_);
  }

  // Of all gradients at once. A rank that made no reduction where others did has reduced nothing. Unless it `compares`, single
  // gradients were recorded, and tell more if all ranks do alike.
  void judge_digests(std::int64_t step, bool compares) {
    const auto of_ranks = digests_.steps().find(step);
    if (told_ || evidence_.ranks() == 1 || of_ranks == digests_.steps().end()) return;
    std::map<int, std::int64_t> made;
    for (const auto& [rank, digest] : of_ranks->second) {
      if (digest->taken > 0) made[rank] = static_cast<std::int64_t>(digest->gradients.size());
    }
    const bool same = all_equal(made);
    const bool none = same && !made.empty() && made.begin()->second == 0;
    // Without a reduction each rank makes weights of its own. Where they agree all the same, the ranks read the same.
    const bool missed = none && reduced_before_ &&
                        ((compares && digests_.said(step, kParameterClass) == Said::differ) ||
                         (always_reduced_ && others_wait(of_ranks->second)));
    reduced_before_ = reduced_before_ || !none;
    always_reduced_ = always_reduced_ && !none;
    if (missed || !same) {
      tell_other_count(step, made);
    } else if (compares) {
      compare_digests(step);
    }
  }

  // Some rank did not come to the end of the step, and did not end well.
  [[nodiscard]] bool others_wait(const Digests::OfRanks& ended) const {
    const std::vector<int> ranks = all_ranks(evidence_);
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
      return !ended.contains(rank) && !evidence_.finished(rank);
    });
  }

  void compare_digests(std::int64_t step) {
    for (const auto& [piece, of_rank] : digests_.held(step, kGradientClass)) {
      const Agreement<int> agreed = agree(of_rank);
      if (agreed.compared()) ++there_;
      if (agreed.said != Said::differ) continue;
      Departure seen("GRAD.NOT_REDUCED", "digest");
      digests_.name_tensors(step, kGradientClass, seen);
      seen.facts["peers"] = ranks_text(holders(of_rank));
      seen.facts["what"] = kGradientClass.in_words;
      seen.site.step = step;
      seen.site.ranks = agreed.odd;
      tell(std::move(seen));
      return;
    }
  }

  // `made`: by rank, the reductions of a step. If some rank made none, it has reduced nothing; else some made more than others.
  void tell_other_count(std::int64_t step, const std::map<int, std::int64_t>& made) {
    std::vector<int> silent;
    for (const auto& [rank, reductions] : made) {
      if (reductions == 0) silent.push_back(rank);
    }
    if (silent.empty()) {
      tell_more_often(step, made);
      return;
    }
    Departure seen("GRAD.NOT_REDUCED", "left_out");
    seen.site.step = step;
    seen.site.ranks = silent;
    tell(std::move(seen));
  }

  // The n-th reduction of one rank goes with the n-th of the others: from here on they belong to different steps.
  void tell_more_often(std::int64_t step, const std::map<int, std::int64_t>& made) {
    std::int64_t fewest = made.begin()->second;
    for (const auto& [rank, reductions] : made) fewest = std::min(fewest, reductions);
    std::vector<int> more;
    std::vector<int> others;
    for (const auto& [rank, reductions] : made) {
      (reductions > fewest ? more : others).push_back(rank);
    }
    Departure seen("COMM.EXTRA", "ranks");
    seen.site.step = step;
    seen.site.ranks = more;
    seen.facts = {{"all_reduces", made.at(more.front())},
                  {"others", ranks_text(others)},
                  {"expected", fewest}};
    tell(std::move(seen));
  }

  void compare(std::int64_t step, const std::string& param, NotReduced& seen) {
    std::map<std::string, HeldByRank> pieces;  // "" is the whole
    for (const int rank : all_ranks(evidence_)) {
      const Gradient* row = ledger_.ranks.find({step, rank, param});
      if (row == nullptr && course_.may_lack(param, rank, step)) continue;
      if (row == nullptr) {
        result_.missing("gradient rows of " + process_name(rank) + ", step " +
                            std::to_string(step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
        continue;
      }
      // Whether a gradient should be there is what gradients_arrived judges.
      if (!row->reduced && course_.as_recorded && has_none(*row)) {
        none_.insert(param);
        continue;
      }
      if (row->hash_after.empty() && !has_none(*row) && (row->reduced || evidence_.ranks() == 1)) {
        result_.missing("the hash of a reduced gradient of " + process_name(rank) + ", step " +
                            std::to_string(step) + ": " + param,
                        site_of_rank(rank));
        continue;
      }
      if (!row->reduced && evidence_.ranks() > 1) {
        if (lost_its_peer(rank)) {
          result_.missing("the end of the reduction of " + process_name(rank) + ", step " +
                              std::to_string(step) + ": a peer was gone",
                          site_of_rank(rank));
          continue;
        }
        seen.unfinished[rank].push_back(param);
      }
      // One rank's mean is its own gradient, but for what travels in another width.
      // What a script of the user's own does between the two (clipping, unscaling) is not known.
      const bool as_it_is =
          evidence_.the_case.scenario.parallel.compress == "none" && !course_.as_recorded;
      if (evidence_.ranks() == 1 && as_it_is) pieces[row->piece][-1] = held(*row, row->hash_before);
      if (row->reduced || evidence_.ranks() == 1)
        pieces[row->piece][rank] = held(*row, row->hash_after);
    }
    for (const auto& [piece, of_rank] : pieces) {
      const Agreement<int> agreed = agree(of_rank);
      if (agreed.said == Said::absent) {
        none_.insert(param);
        continue;
      }
      ++there_;
      in_pieces_.add(param, piece, of_rank.size());
      if (agreed.said != Said::differ) continue;
      if (seen.differ.empty() || seen.differ.back() != param) seen.differ.push_back(param);
      seen.held[param] = of_rank;
      seen.majority = seen.majority && !agreed.odd.empty();
      seen.off_ranks.insert(agreed.odd.begin(), agreed.odd.end());
    }
  }

  [[nodiscard]] std::string of_pieces(std::int64_t steps) const {
    return in_pieces_.text("gradient", params_.size(), all_ranks(evidence_)) +
           "; every rank took part in a reduction in " +
           (steps == 1 ? std::string("the step") : "each of " + counted(steps, "step"));
  }

  [[nodiscard]] bool lost_its_peer(int rank) const {
    const WorkerError* error = evidence_.error_of(rank);
    return error != nullptr && raised_as(*error).failure == Failure::communication;
  }

  void count_reductions(std::int64_t step, NotReduced& seen) {
    if (evidence_.ranks() == 1) return;
    for (const int rank : all_ranks(evidence_)) {
      const bool any = std::any_of(evidence_.collectives.begin(),
                                   evidence_.collectives.end(),
                                   [&](const auto& row) { return row.process == rank; });
      if (!any) {
        result_.missing("collectives of " + process_name(rank) + ended_early(evidence_, rank),
                        site_of_rank(rank));
        continue;
      }
      const std::vector<const Collective*> sums = reductions(rank, step);
      const bool has_rows =
          std::any_of(params_.begin(), params_.end(), [&](const std::string& param) {
            const Gradient* row = ledger_.ranks.find({step, rank, param});
            return row != nullptr && !is_of_one_rank(row->piece);
          });
      if (sums.empty() && has_rows && !lost_its_peer(rank)) seen.silent.push_back(rank);
      if (!course_.as_recorded) too_many(step, rank, sums);  // a script may reduce as it likes
    }
    if (!extra_.empty() && !extra_told_) {
      result_.found(extra(step));
      extra_told_ = true;
    }
  }

  // The ranks of a script may reduce by what no record sees. Whole gradients that are equal after the step and were not before it
  // have been reduced.
  [[nodiscard]] bool agree_though_unseen(std::int64_t step, const NotReduced& seen) {
    if (!course_.as_recorded || !seen.differ.empty() || !seen.unfinished.empty()) return false;
    const bool differed =
        std::any_of(params_.begin(), params_.end(), [&](const std::string& param) {
          std::set<std::string> local;
          for (const int rank : all_ranks(evidence_)) {
            const Gradient* row = ledger_.ranks.find({step, rank, param});
            if (row != nullptr && row->piece.empty()) local.insert(row->hash_before);
          }
          return local.size() > 1;
        });
    if (differed) {
      result_.missing("the collectives by which the gradients of step " + std::to_string(step) +
                      " came to agree");
    }
    return differed;
  }

  [[nodiscard]] std::vector<const Collective*> reductions(int rank, std::int64_t step) const {
    std::map<int, std::vector<const Collective*>> of_life;
    for (const auto& row : evidence_.collectives) {
      if (row.process == rank && row.row.step == step &&
          (sums_gradients(row.row) || scatters_gradients(row.row))) {
        of_life[life_at(evidence_, row.t_ms)].push_back(&row.row);
      }
    }
    // A step that was begun in one life and done in the next counts once.
    return of_life.empty() ? std::vector<const Collective*>{} : of_life.rbegin()->second;
  }

  // The plan is carried out once an optimiser step, in its last micro-batch.
  void too_many(std::int64_t step, int rank, const std::vector<const Collective*>& sums) {
    Latest<int, Bucket> plan;
    for (const auto& row : evidence_.buckets) {
      if (row.process == rank && row.row.step == step) plan.put(row.row.bucket, row);
    }
    if (plan.all().empty()) {
      result_.missing("bucket plan of " + process_name(rank) + ", step " + std::to_string(step) +
                          ended_early(evidence_, rank),
                      site_of_rank(rank));
      return;
    }
    // A record that tells no micro-batch apart says nothing of when: it counts alone.
    const std::int64_t last_micro =
        micro_is_told_ ? evidence_.the_case.scenario.training.accumulate - 1 : 0;
    const auto early = std::count_if(
        sums.begin(), sums.end(), [&](const Collective* sum) { return sum->micro < last_micro; });
    if (sums.size() <= plan.all().size() && early == 0) return;
    extra_[rank] = {sums.size(), plan.all().size(), static_cast<std::size_t>(early)};
  }

  [[nodiscard]] Finding extra(std::int64_t step) const {
    std::set<int> ranks;
    for (const auto& [rank, counts] : extra_) ranks.insert(rank);
    const Counts& counts = extra_.begin()->second;
    Finding finding = make_finding("COMM.EXTRA", "extra");
    finding.site.step = step;
    finding.site.ranks = to_ints(ranks);
    finding.site.detail["reductions_per_step"] =
        static_cast<double>(counts.reductions) / static_cast<double>(counts.buckets);
    finding.site.detail["expected"] = 1;
    finding.site.detail["all_reduces"] = counts.reductions;
    finding.site.detail["buckets"] = counts.buckets;
    if (counts.early > 0) finding.site.detail["before_the_last_micro_batch"] = counts.early;
    return finding;
  }

  [[nodiscard]] static std::vector<int> blamed(const NotReduced& seen, int world) {
    std::set<int> ranks = seen.off_ranks;
    for (const auto& [rank, params] : seen.unfinished) ranks.insert(rank);
    ranks.insert(seen.silent.begin(), seen.silent.end());
    const bool nobody_known = !seen.majority && static_cast<int>(ranks.size()) < world &&
                              seen.unfinished.empty() && seen.silent.empty();
    return nobody_known ? std::vector<int>{} : to_ints(ranks);
  }

  [[nodiscard]] Finding not_reduced(std::int64_t step, const NotReduced& seen) const {
    std::set<std::string> affected(seen.differ.begin(), seen.differ.end());
    for (const auto& [rank, params] : seen.unfinished) {
      affected.insert(params.begin(), params.end());
    }
    Finding finding = make_finding("GRAD.NOT_REDUCED", "gradients");
    const bool all = affected.empty() || affected.size() == params_.size();
    if (!all) finding.site = site_of_params({affected.begin(), affected.end()});
    if (all) finding.site.detail["param_count"] = params_.size();
    finding.site.step = step;
    finding.site.ranks = blamed(seen, evidence_.ranks());
    if (!seen.differ.empty()) {
      finding.facts = {{"differing", seen.differ.size()}, {"total", params_.size()}};
      finding.facts.put_some("params", seen.differ);
    }
    for (const auto& [rank, params] : seen.unfinished) {
      finding.facts["unfinished"][process_name(rank)] =
          counted(static_cast<std::int64_t>(params.size()), "parameter");
    }
    if (!seen.silent.empty()) finding.facts["silent"] = ranks_text(seen.silent);
    return finding;
  }

  // All-reduces of one size, issued in another order on some rank, complete without an error: only their results show it.
  void tell_crossed(std::int64_t step, const NotReduced& seen) {
    std::set<std::string> crossed;
    std::set<int> off;
    for (auto one = seen.held.begin(); one != seen.held.end(); ++one) {
      for (auto other = std::next(one); other != seen.held.end(); ++other) {
        if (!exchanged(one->second, other->second)) continue;
        crossed.insert({one->first, other->first});
        const std::vector<int> ranks = agree(one->second).odd;
        off.insert(ranks.begin(), ranks.end());
      }
    }
    if (crossed.empty()) return;
    const std::vector<std::string> params(crossed.begin(), crossed.end());
    Finding finding = make_finding("DESYNC.ORDER", "crossed");
    finding.site = site_of_params(params);
    finding.site.op = "grad_sync";
    finding.site.step = step;
    finding.site.ranks = to_ints(off);
    finding.facts.put_some("params", params);
    result_.found(finding);
  }

  struct Counts {
    std::size_t reductions = 0;
    std::size_t buckets = 0;
    std::size_t early = 0;  // of the reductions: in a micro-batch that is not the step's last
  };

  const Evidence& evidence_;
  Ledger ledger_;
  Course course_;
  const std::vector<std::string>& params_;
  Digests digests_;
  bool micro_is_told_ = false;
  std::set<std::string> none_;  // parameters without a gradient in some step
  Pieces in_pieces_;
  std::int64_t there_ = 0;  // reduced gradients that were compared, over all steps
  ResultBuilder result_;
  std::map<int, Counts> extra_;
  bool told_ = false;
  bool reduced_before_ = false;
  bool always_reduced_ = true;  // in each step so far in which the optimiser took one
  bool extra_told_ = false;
};

}  // namespace

Check gradients_agree() {
  return {"gradients_agree",
          "the reduced gradient is the same on every rank, reduced once an optimiser step",
          {"GRAD.NOT_REDUCED", "GRAD.OUTLIER", "COMM.EXTRA", "DESYNC.ORDER"},
          [](const Evidence& evidence) { return ReducedGradients(evidence).judge(); }};
}

}  // namespace harness::checks
