// Does a run that was interrupted and resumed go on as if nothing had happened? Its twin was never interrupted: parameters and
// every part of the training state must be the twin's, bit by bit, at the snapshot and after each step that follows. A run that
// differs from the twin before it was interrupted tells nothing of its resumption. Before all that, the step that it goes on with
// must be the one after the snapshot's: files of a step that is done a second time are those of the second time, the twin's lead
// among them.
#include <algorithm>
#include <optional>
#include <tuple>

#include "harness/checks/agreement.h"
#include "harness/checks/departures.h"
#include "harness/checks/list.h"
#include "harness/checks/lives.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr const char* kParameters = "parameters";

// rank, step, and a part of the state or (kParameters) a parameter's name after a slash
using StateKey = std::tuple<int, std::int64_t, std::string>;

struct StateHash {  // of what was written again the latest counts
  std::int64_t t_ms = 0;
  std::string text;
  auto operator<=>(const StateHash&) const = default;
};
using Hashes = std::map<StateKey, StateHash>;

void keep_latest(Hashes& hashes, const StateKey& key, const StateHash& hash) {
  const auto [at, inserted] = hashes.try_emplace(key, hash);
  if (!inserted) at->second = std::max(at->second, hash);
}

std::string part_of(const std::string& name) {
  return name.substr(0, name.find('/'));
}

class ResumeJudge {
 public:
  explicit ResumeJudge(const Evidence& evidence)
      : evidence_(evidence), last_life_(static_cast<int>(evidence.relaunches.size())) {
    read_snapshots();
    read_hashes();
  }

  CheckResult judge() {
    if (!torn_.empty()) result_.found(torn());
    if (torn_.empty() && evidence_.relaunches.empty() && resumed_.empty()) {
      return inconclusive("no rank was started again and no snapshot was read back");
    }
    if (!evidence_.twin_ran()) result_.missing("the twin, which did not run or not to its end");
    const bool states = std::any_of(evidence_.states.begin(),
                                    evidence_.states.end(),
                                    [](const auto& row) { return row.process == kTwin; });
    if (!states) result_.missing("the twin's training state (optimiser, schedule, random numbers)");
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    if (!from_scratch_.empty()) result_.found(scratch());
    if (!other_step_.empty()) result_.found(other_step());
    if (!diverged_.empty()) result_.found(diverged());
    result_.measured("values_equal_to_twin", static_cast<double>(equal_));
    return result_.finish("resumed after step " + steps_text() + ", " + std::to_string(equal_) +
                          " hashes of parameters and state are the twin's, which was never " +
                          "interrupted");
  }

 private:
  void read_snapshots() {
    std::map<int, std::int64_t> at;
    for (const auto& [process, t_ms, row] : evidence_.snapshots) {
      if (process < 0) continue;
      const bool newest = at.count(process) == 0 || at[process] <= t_ms;
      if (row.use == "saved") saved_[row.step].emplace(process, life_at(evidence_, t_ms));
      if (!row.torn.empty()) torn_[row.step][process] = row;
      if (row.use != "resumed" || !newest) continue;
      at[process] = t_ms;
      resumed_[process] = row.step;
    }
    resumed_ms_ = at;
  }

  // The last life of a rank began with the last start, or where none is known with reading the snapshot.
  [[nodiscard]] bool in_last_life(int process, std::int64_t t_ms) const {
    if (last_life_ > 0) return life_at(evidence_, t_ms) == last_life_;
    const auto at = resumed_ms_.find(process);
    return at != resumed_ms_.end() && t_ms >= at->second;
  }

  template <typename RowOfStep>
  void keep(const From<RowOfStep>& row, const std::string& name, const std::string& hash) {
    if (hash.empty()) return;  // not read: it is missing
    const StateKey key{row.process, row.row.step, name};
    if (row.process == kTwin) keep_latest(twin_, key, {row.t_ms, hash});
    if (row.process < 0) return;
    const bool last = in_last_life(row.process, row.t_ms);
    keep_latest(last ? last_ : earlier_, key, {row.t_ms, hash});
    if (last) done_again_.insert({row.process, row.row.step});
  }

  void read_hashes() {
    for (const auto& row : evidence_.parameters) {
      keep(row, std::string(kParameters) + "/" + row.row.param, row.row.hash);
    }
    for (const auto& row : evidence_.states) keep(row, row.row.part, row.row.hash);
  }

  void judge_rank(int rank) {
    auto at = resumed_.find(rank);
    if (at == resumed_.end() || !in_last_life(rank, resumed_ms_.at(rank))) {
      if (saved_before() || last_life_ == 0 || done_again_.count({rank, 1}) == 0) {
        no_snapshot_read(rank);
        return;
      }
      // Interrupted before there was anything to go on from: the whole run is the second life's.
      at = resumed_.insert_or_assign(rank, 0).first;
    } else if (const auto first = step_gone_on_with(rank); first && *first != at->second + 1) {
      other_step_[{at->second, *first}].insert(rank);
      return;
    }
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    for (std::int64_t step = 1; step <= at->second; ++step) {
      const std::set<std::string> before = compare(rank, step, earlier_);
      if (before.empty()) continue;
      result_.missing("a run that is the twin's before it was interrupted (" + process_name(rank) +
                      " differs in step " + std::to_string(step) + ")");
      return;
    }
    const std::set<std::string> restored = compare(rank, at->second, last_, true);
    std::optional<std::int64_t> first;
    std::set<std::string> names;
    for (std::int64_t step = at->second + 1; step <= steps && !first; ++step) {
      names = compare(rank, step, last_);
      if (!names.empty()) first = step;
    }
    judge_schedule(rank);
    if (!first && restored.empty()) return;
    add(rank, first.value_or(at->second), names, restored);
  }

  // Without a loss scale every step is taken.
  void judge_schedule(int rank) {
    const bool skips = evidence_.the_case.scenario.training.precision == nsa::Precision::fp16;
    for (const auto& [key, hash] : last_) {
      const auto& [process, step, name] = key;
      const bool is_count = name == "schedule" && !hash.text.empty() &&
                            hash.text.find_first_not_of("0123456789") == std::string::npos;
      if (process != rank || skips || !is_count || hash.text == std::to_string(step)) continue;
      result_.missing("a row of the schedule of " + process_name(rank) + " that counts the step" +
                      " it is of (it has " + hash.text + " after step " + std::to_string(step) +
                      ")");
      return;
    }
  }

  // The first step that the rank entered after it had read its snapshot.
  [[nodiscard]] std::optional<std::int64_t> step_gone_on_with(int rank) const {
    std::optional<std::pair<std::int64_t, std::int64_t>> first;  // when, and the step
    for (const auto& [process, t_ms, row] : evidence_.phases) {
      if (process != rank || row.step < 1 || t_ms < resumed_ms_.at(rank)) continue;
      first = std::min(first.value_or(std::pair(t_ms, row.step)), std::pair(t_ms, row.step));
    }
    return first ? std::optional(first->second) : std::nullopt;
  }

  // What is not the twin's, of what `hashes` has of this rank and step. Of a state as it was read back parts may go unrecorded.
  std::set<std::string> compare(int rank,
                                std::int64_t step,
                                const Hashes& hashes,
                                bool optional = false) {
    std::set<std::string> differ;
    bool any = optional && step == 0;  // nothing was read back
    for (auto at = twin_.lower_bound({kTwin, step, ""});
         at != twin_.end() && std::get<1>(at->first) == step;
         ++at) {
      const std::string& name = std::get<2>(at->first);
      const auto own = hashes.find({rank, step, name});
      if (own == hashes.end()) {
        if (!optional) missing(rank, step, name);
        continue;
      }
      any = true;
      const bool same =
          agree(Held::hash(own->second.text), Held::hash(at->second.text)) == Said::equal;
      if (same) ++equal_;
      if (!same) differ.insert(name);
    }
    if (!any) missing(rank, step, kParameters);
    return differ;
  }

  void missing(int rank, std::int64_t step, const std::string& name) {
    result_.missing("the " + part_of(name) + " of " + process_name(rank) + " after step " +
                        std::to_string(step) + ended_early(evidence_, rank),
                    site_of_rank(rank));
  }

  void add(int rank,
           std::int64_t step,
           const std::set<std::string>& names,
           const std::set<std::string>& restored) {
    Departure seen("RESUME.DIVERGED", restored.empty() ? "diverged" : "read_back");
    seen.site = site_of_rank(rank);
    seen.site.step = step;
    seen.site.detail["resumed_after_step"] = {resumed_.at(rank)};
    std::set<std::string> parts;
    // What was not read back says more than what it led to.
    for (const std::string& name : restored.empty() ? names : restored) parts.insert(part_of(name));
    seen.site.detail["parts"] = parts;
    for (const std::string& name : names) {
      if (part_of(name) == kParameters) seen.tensors.push_back(name.substr(name.find('/') + 1));
    }
    diverged_.push_back(std::move(seen));
  }

  // Ranks go on from a step that all of them have: one that was killed while it saved leaves the others nothing.
  [[nodiscard]] bool saved_before() const {
    return std::any_of(saved_.begin(), saved_.end(), [&](const auto& step) {
      const auto& lives = step.second;
      return lives.size() == static_cast<std::size_t>(evidence_.ranks()) &&
             std::all_of(lives.begin(), lives.end(), [&](const auto& life) {
               return life.second < last_life_;
             });
    });
  }

  // A run that begins anew where a snapshot was there to go on from.
  void no_snapshot_read(int rank) {
    if (saved_before() && done_again_.count({rank, 1}) > 0) {
      from_scratch_.insert(rank);
      return;
    }
    result_.missing("a snapshot that " + process_name(rank) + " read back" +
                    (saved_before() ? "" : " (none was written before it was interrupted)"));
  }

  [[nodiscard]] std::string steps_text() const {
    std::set<int> steps;
    for (const auto& [rank, step] : resumed_) steps.insert(static_cast<int>(step));
    return nsa::ranges_text(to_ints(steps));
  }

  [[nodiscard]] Finding scratch() const {
    Finding finding = make_finding("RESUME.DIVERGED", "scratch");
    finding.site.step = 1;
    finding.site.ranks = to_ints(from_scratch_);
    finding.site.detail["cause"] = "started from scratch";
    return finding;
  }

  [[nodiscard]] Finding other_step() const {
    const auto& [steps, ranks] = *other_step_.begin();
    const auto& [resumed, found] = steps;
    Finding finding = make_finding("RESUME.DIVERGED", "other_step");
    finding.site.step = std::min(found, resumed + 1);
    finding.site.ranks = to_ints(ranks);
    finding.site.detail["cause"] = "went on with another step";
    finding.site.detail["resumed_after_step"] = resumed;
    finding.facts = {{"found", found}, {"wanted", resumed + 1}};
    return finding;
  }

  // "moments" of "exp_avg.blocks.0..."
  static std::string part_of_snapshot(const std::string& tensor) {
    if (tensor.starts_with("exp_avg")) return "moments";
    if (tensor.starts_with("master.")) return "masters";
    return tensor.starts_with("rng.") ? "rng" : kParameters;
  }

  // Of the first step whose snapshot is torn on some rank.
  [[nodiscard]] Finding torn() const {
    const auto& [step, of_rank] = *torn_.begin();
    std::set<int> ranks;
    std::set<std::string> parts;
    std::set<std::string> tensors;
    std::int64_t compared = 0;
    for (const auto& [rank, row] : of_rank) {
      ranks.insert(rank);
      compared = row.tensors;
      for (const std::string& tensor : row.torn) {
        parts.insert(part_of_snapshot(tensor));
        tensors.insert(tensor);
      }
    }
    Finding finding = make_finding("RESUME.TORN", "torn");
    finding.site.step = step;
    finding.site.ranks = to_ints(ranks);
    finding.site.detail["parts"] = parts;
    finding.facts = {{"count", tensors.size()}, {"total", compared}};
    finding.facts.put_some("tensors", {tensors.begin(), tensors.end()});
    return finding;
  }

  // Of the ranks that differ first. It was read back wrongly if that holds on all of them.
  [[nodiscard]] Finding diverged() const {
    const auto step_of = [](const Departure& seen) { return *seen.site.step; };
    std::int64_t first = step_of(diverged_.front());
    for (const Departure& seen : diverged_) first = std::min(first, step_of(seen));
    std::vector<Departure> earliest;
    std::set<std::string> params;
    for (const Departure& seen : diverged_) {
      if (step_of(seen) != first) continue;
      params.insert(seen.tensors.begin(), seen.tensors.end());
      earliest.push_back(seen);
    }
    const bool read_back = std::all_of(earliest.begin(), earliest.end(), [](const Departure& seen) {
      return seen.variant == "read_back";
    });
    Departures all;
    for (Departure& seen : earliest) {
      seen.variant = read_back ? "read_back" : "diverged";
      seen.tensors.clear();
      all.add(std::move(seen));
    }
    Finding finding = all.findings().front();
    if (params.empty()) return finding;
    finding.facts["count"] = params.size();
    finding.facts.put_some("params", {params.begin(), params.end()});
    return finding;
  }

  const Evidence& evidence_;
  int last_life_ = 0;
  std::map<int, std::int64_t> resumed_;     // rank -> the step after which it goes on
  std::map<int, std::int64_t> resumed_ms_;  // rank -> when
  std::map<std::int64_t, std::map<int, SnapshotUse>> torn_;  // by step and rank
  std::map<std::int64_t, std::map<int, int>>
      saved_;  // step: rank: the first life in which it wrote its snapshot
  Hashes twin_;
  Hashes earlier_;  // of all lives but the last
  Hashes last_;
  std::set<std::pair<int, std::int64_t>> done_again_;  // rank and step, in the last life
  std::set<int> from_scratch_;
  // The step of the snapshot and the one that it was gone on with: ranks.
  std::map<std::pair<std::int64_t, std::int64_t>, std::set<int>> other_step_;
  std::vector<Departure> diverged_;  // of each rank, in the first step that differs there
  std::int64_t equal_ = 0;
  ResultBuilder result_;
};

}  // namespace

Check resume_equal() {
  return {"resume_equal",
          "a resumed run goes on bit by bit as one that was never interrupted",
          {"RESUME.DIVERGED", "RESUME.TORN"},
          [](const Evidence& evidence) { return ResumeJudge(evidence).judge(); }};
}

}  // namespace harness::checks
