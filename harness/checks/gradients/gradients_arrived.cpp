// Does every parameter get a gradient, on every rank, in every step, once? Judged from the gradient ledger alone: what the
// loss reaches, how often each parameter became ready, and whether the hooks of the reducer are still where they were.
#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "harness/checks/course.h"
#include "harness/checks/data_of.h"
#include "harness/checks/drawn_tokens.h"
#include "harness/checks/gradients/ledger.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/evidence/raised.h"

namespace harness::checks {
namespace {

// Which of its complaints the reducer raised: told by the function, by the words where the function is not known.
bool complains(const WorkerError& error, std::string_view function, std::string_view words) {
  if (raised_as(error).failure != Failure::reducer) return false;
  return raised_by_function(error, function) || error.what.find(words) != std::string::npos;
}

enum class Symptom { unreachable, unreachable_here, none, zero, twice, hook_lost };

struct Situation {
  const char* code;
  const char* variant;
};

Situation situation_of(Symptom symptom) {
  switch (symptom) {
    case Symptom::unreachable: return {"GRAD.MISSING", "unreachable"};
    case Symptom::unreachable_here: return {"GRAD.NOT_FINALIZED", "unreachable_here"};
    case Symptom::none: return {"GRAD.MISSING", "none"};
    case Symptom::zero: return {"GRAD.ZERO", "zero"};
    case Symptom::twice: return {"GRAD.DOUBLE_READY", "twice"};
    case Symptom::hook_lost: return {"GRAD.HOOK_LOST", "lost"};
  }
  return {};
}

struct SymptomOnRanks {  // one symptom on one set of ranks: what is told together
  Symptom symptom;
  std::vector<int> ranks;
  auto operator<=>(const SymptomOnRanks&) const = default;
};
using Affected = std::map<SymptomOnRanks, std::map<std::int64_t, std::vector<std::string>>>;

bool listed(const std::vector<std::string>& names, const std::string& param) {
  return std::find(names.begin(), names.end(), short_name(param)) != names.end();
}

std::optional<Symptom> symptom_of(int rank, const Gradient& row, const Course& course) {
  const Uninfluential& expected = course.expected;
  if (row.state == "frozen") return std::nullopt;
  // No hook was called, and something is there: a script may put its gradients there itself.
  const bool is_there = row.state != "none" && row.state != "zero";
  if (row.reachable == Reach::unknown && is_there) return std::nullopt;
  if (row.reachable == Reach::no) {
    if (listed(expected.unreachable, row.param)) return std::nullopt;
    return Symptom::unreachable;
  }
  if (row.ready_count > 1 || row.hooks_found > row.hooks_expected) return Symptom::twice;
  if (row.hooks_found < row.hooks_expected) return Symptom::hook_lost;
  if (row.ready_count == 0 || row.state == "none") return Symptom::none;
  // A model of the user's own may start with weights of zero that make gradients zero.
  const bool may_be_zero = course.as_recorded || listed(course.zero_of(rank, row.step), row.param);
  if (row.state == "zero" && !may_be_zero) return Symptom::zero;
  return std::nullopt;
}

int all_reduces(const Evidence& evidence, int rank, std::int64_t step) {
  return static_cast<int>(
      std::count_if(evidence.collectives.begin(), evidence.collectives.end(), [&](const auto& row) {
        return row.process == rank && row.row.step == step && row.row.op == "allreduce";
      }));
}

// A rank without a row whose reducer sent more buckets than the one that lacks the gradient had the gradients ready.
bool got_further(const Evidence& evidence, int rank, int than, std::int64_t step) {
  return all_reduces(evidence, rank, step) > all_reduces(evidence, than, step);
}

class Arrival {
 public:
  explicit Arrival(const Evidence& evidence)
      : evidence_(evidence),
        ledger_(evidence),
        tokens_(evidence),
        course_(Course::of(evidence)),
        params_(course_.params) {}

  CheckResult judge() {
    if (evidence_.gradients.empty()) return inconclusive("no gradient row was recorded");
    for (const std::int64_t step : course_.steps) {
      for (const std::string& param : params_) judge_param(step, param);
    }
    find_never_reached();
    name_missing();
    from_reducer_errors();
    for (const auto& [group, steps_of] : affected_) result_.found(finding(group, steps_of));
    const double arrived = static_cast<double>(params_.size() - lacking_.size());
    result_.measured("parameters_arrived", arrived, static_cast<double>(params_.size()));
    return result_.finish(summary());
  }

 private:
  void judge_param(std::int64_t step, const std::string& param) {
    std::map<Symptom, std::vector<int>> ranks_with;
    std::vector<int> absent;
    for (const int rank : all_ranks(evidence_)) {
      const Gradient* row = ledger_.ranks.find({step, rank, param});
      if (row == nullptr && course_.may_lack(param, rank, step)) continue;
      if (row == nullptr) {
        absent.push_back(rank);
        absent_[{rank, step}].push_back(param);
      } else if (const auto symptom = symptom_of(rank, *row, course_)) {
        if (*symptom == Symptom::hook_lost) depart(rank, *row);
        if (*symptom == Symptom::zero && has_nothing_to_compare(param, rank, step)) {
          arrived_[param].insert(step);
          continue;
        }
        if (*symptom == Symptom::none && backward_raised(rank, step)) {
          unreached_[{rank, step}].push_back(param);
        } else if (row->reachable == Reach::unknown) {
          undecided_[{rank, step}].push_back(param);
        } else if (*symptom == Symptom::unreachable && may_be_left_out(rank, step)) {
          left_out_[param].insert(step);
        } else {
          ranks_with[*symptom].push_back(rank);
        }
      } else if (row->state != "frozen") {
        arrived_[param].insert(step);
      }
    }
    if (!ranks_with.empty() || !absent.empty()) lacking_.insert(param);
    for (auto& [symptom, ranks] : ranks_with) {
      Symptom told = symptom;
      if (symptom == Symptom::unreachable && reached_elsewhere(step, ranks, absent)) {
        told = Symptom::unreachable_here;
      }
      affected_[{told, ranks}][step].push_back(param);
    }
  }

  // A lost hook does not come back: where a reduction started from it in all later steps, it was there.
  void depart(int rank, const Gradient& lost) {
    const std::string place =
        lost.param + " on " + process_name(rank) + ", step " + std::to_string(lost.step);
    result_.departed({"the hooks found of " + place,
                      "hooks of gradients",
                      [=, param = lost.param, step = lost.step](Evidence& evidence) {
                        for (From<Gradient>& from : evidence.gradients) {
                          const bool same = from.process == rank && from.row.step == step;
                          if (!same || from.row.param != param) continue;
                          from.row.hooks_found = from.row.hooks_expected;
                        }
                      }});
    const auto is_reduced = [&](std::int64_t step) {
      const Gradient* row = ledger_.ranks.find({step, rank, lost.param});
      return step <= lost.step || (row != nullptr && row->ready_count == 1 &&
                                   !row->hash_after.empty() && row->hash_after != row->hash_before);
    };
    const bool is_last = lost.step >= *course_.steps.rbegin();
    if (is_last || !std::all_of(course_.steps.begin(), course_.steps.end(), is_reduced)) return;
    result_.departed({"the later gradients of " + place, "gradients after a lost hook", {}});
  }

  // A script of the user's own may leave a layer out of a step, unless its reducer was told that every parameter takes part and
  // says in the next step that one did not.
  [[nodiscard]] bool may_be_left_out(int rank, std::int64_t step) const {
    if (!course_.as_recorded) return false;
    const WorkerError* error = evidence_.error_of(rank);
    return error == nullptr || !is_unfinished(*error) || error->step - step > 1;
  }

  // What got no gradient in the later half of the steps is not known to take part at all.
  [[nodiscard]] bool was_left_out_for_good(const std::string& param) const {
    const std::int64_t half = course_.steps[course_.steps.size() / 2];
    const auto arrived = arrived_.find(param);
    return arrived == arrived_.end() || *arrived->second.rbegin() < half;
  }

  // A softmax over equal values depends on no key and no query: where all that scored positions see is one token repeated, as runs
  // of spaces in a text are, the gradients that go through scores are zero by the equations. Compressed tokens are equal already
  // where the windows hold the same tokens. Past the first layer positions differ as soon as one of them sees a compressed token
  // and another does not.
  bool has_nothing_to_compare(const std::string& param, int rank, std::int64_t step) {
    const Scenario& scenario = evidence_.the_case.scenario;
    const std::string name = short_name(param);
    const bool of_keys = name.rfind("W_K_", 0) == 0 || name.rfind("phi_k", 0) == 0;
    const bool acts_through_scores =
        of_keys || (name == "W_Q" && scenario.model.gate != nsa::Gate::group_softmax);
    if (scenario.is_command() || !acts_through_scores) return false;
    const bool first = layer_of(param) == 0;
    if (first && of_keys && branch_of(name) == "cmp" && tokens_.repeat_one_window(rank, step)) {
      return true;
    }
    if (!tokens_.repeat_one_token(rank, step)) return false;
    const std::int64_t seen = longest_scored(data_of(scenario), rank, step);
    return first || scenario.model.compressed_len(seen) == 0;
  }

  [[nodiscard]] bool reached_elsewhere(std::int64_t step,
                                       const std::vector<int>& ranks,
                                       const std::vector<int>& absent) const {
    if (ranks.size() + absent.size() < static_cast<std::size_t>(evidence_.ranks())) return true;
    return std::any_of(absent.begin(), absent.end(), [&](int rank) {
      return got_further(evidence_, rank, ranks.front(), step);
    });
  }

  // An exception ended the backward: what it had not come to yet is no finding of its own. That the reduction is not finished
  // is said after a backward that came to its end.
  [[nodiscard]] bool backward_raised(int rank, std::int64_t step) const {
    const WorkerError* error = evidence_.error_of(rank);
    return error != nullptr && error->step == step && error->phase == "backward" &&
           !is_unfinished(*error);
  }

  [[nodiscard]] static bool is_unfinished(const WorkerError& error) {
    return complains(error, "c10d::Reducer::ensure_prior", "finished reduction");
  }

  void name_missing() {
    for (const auto& [place, params] : undecided_) {
      const auto& [rank, step] = place;
      result_.missing("whether the loss leads to " + some_of(params) + " on " + process_name(rank) +
                          " in step " + std::to_string(step) +
                          ": no gradient came, and no walk over the graph decides it",
                      site_of_rank(rank));
    }
    name_left_out();
    for (const auto& [place, params] : unreached_) {
      const auto& [rank, step] = place;
      result_.missing(std::to_string(params.size()) + " gradients of " + process_name(rank) +
                          " that step " + std::to_string(step) +
                          " had not come to when its backward raised an exception",
                      site_of_rank(rank));
    }
    for (const auto& [place, params] : absent_) {
      const auto& [rank, step] = place;
      const std::string which =
          params.size() == params_.size()
              ? "any parameter"
              : std::to_string(params.size()) + " parameters (" + some_of(params) + ")";
      result_.missing("no gradient row of " + process_name(rank) + " for " + which + " in step " +
                          std::to_string(step) + ended_early(evidence_, rank),
                      site_of_rank(rank));
    }
  }

  // On every rank, in the whole run, in steps too that were not recorded.
  void find_never_reached() {
    std::map<std::string, std::set<int>> ranks_of;
    for (const auto& fact : evidence_.facts) {
      if (fact.process < 0 || fact.row.name != kNeverReachedFact) continue;
      const auto names = nlohmann::json::parse(fact.row.value, nullptr, false);
      if (!names.is_array()) continue;
      for (const auto& name : names) {
        if (name.is_string()) ranks_of[name.get<std::string>()].insert(fact.process);
      }
    }
    for (const auto& [name, ranks] : ranks_of) {
      if (to_ints(ranks) == all_ranks(evidence_)) never_reached_.push_back(name);
    }
    if (never_reached_.empty()) return;
    lacking_.insert(never_reached_.begin(), never_reached_.end());
    Finding finding = make_finding("GRAD.MISSING", "held");
    finding.site = site_of_params(never_reached_);
    finding.facts = {{"count", never_reached_.size()}, {"total", params_.size()}};
    finding.facts.put_some("params", never_reached_);
    result_.found(std::move(finding));
  }

  void name_left_out() {
    std::map<std::int64_t, std::vector<std::string>> last;  // step in which a gradient came: params
    for (const auto& [param, steps] : left_out_) {
      const auto told = std::find(never_reached_.begin(), never_reached_.end(), param);
      if (told != never_reached_.end() || !was_left_out_for_good(param)) continue;
      const auto arrived = arrived_.find(param);
      last[arrived == arrived_.end() ? 0 : *arrived->second.rbegin()].push_back(param);
    }
    for (const auto& [step, params] : last) {
      result_.missing("whether the loss should lead to " + some_of(params) + ", as it does in no " +
                      (step == 0 ? "step that was recorded"
                                 : "recorded step after step " + std::to_string(step)));
    }
  }

  // The reducer names the parameter: "Parameter at index 4 with name X has been marked as ready twice".
  void from_reducer_errors() {
    for (const auto& error : evidence_.errors) {
      if (error.process < 0) continue;
      constexpr const char* kRaises = "c10d::Reducer::checkAndRaise";
      if (!complains(error.row, kRaises, "ready only once") &&
          !complains(error.row, kRaises, "marked as ready twice")) {
        continue;
      }
      if (has_twice(error.process)) continue;
      const std::string param = param_named_in(error.row.what);
      told_by_reducer_[{error.row.step, param}].insert(error.process);
    }
    for (const auto& [place, ranks] : told_by_reducer_) {
      const auto& [step, param] = place;
      affected_[{Symptom::twice, to_ints(ranks)}][step].push_back(param);
    }
  }

  [[nodiscard]] bool has_twice(int rank) const {
    return std::any_of(affected_.begin(), affected_.end(), [&](const auto& entry) {
      const auto& ranks = entry.first.ranks;
      return entry.first.symptom == Symptom::twice &&
             std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    });
  }

  [[nodiscard]] std::string param_named_in(const std::string& what) const {
    std::string longest;
    for (const std::string& param : params_) {
      if (param.size() > longest.size() && what.find(param) != std::string::npos) longest = param;
    }
    if (!longest.empty()) return longest;
    constexpr std::string_view kIndex = "at index ";
    const std::size_t at = what.find(kIndex);
    if (at == std::string::npos) return "";
    const int index = std::atoi(what.c_str() + at + kIndex.size());
    for (const auto& [key, row] : ledger_.ranks.all()) {
      if (row->row.index == index) return key.param;
    }
    return "";
  }

  [[nodiscard]] Finding finding(
      const SymptomOnRanks& group,
      const std::map<std::int64_t, std::vector<std::string>>& steps_of) const {
    const auto& [step, params] = *steps_of.begin();
    const Situation situation = situation_of(group.symptom);
    Finding finding = make_finding(situation.code, situation.variant);
    finding.site = site_of_params(params);
    finding.site.ranks = group.ranks;
    if (group.symptom == Symptom::none && are_handed_on(params)) finding.site.op = "checkpoint";
    if (step > 0) finding.site.step = step;
    finding.facts = {{"count", params.size()}, {"total", params_.size()}};
    finding.facts.put_some("params", params);
    if (steps_of.size() > 1) {
      finding.site.detail["steps"] = steps_of.size();
      finding.facts["later_steps"] = steps_of.size() - 1;
    }
    return finding;
  }

  // Parameters of a layer that is computed again are inputs of the checkpoint, where it is no nested backward: the backward that
  // gave them nothing is the checkpoint's.
  [[nodiscard]] bool are_handed_on(const std::vector<std::string>& params) const {
    const nsa::ParallelConfig& parallel = evidence_.the_case.scenario.parallel;
    if (parallel.checkpoint_mode == "nested") return false;
    const auto& again = parallel.checkpoint_layers;
    return std::all_of(params.begin(), params.end(), [&](const std::string& param) {
      const std::vector<int> layers = site_of_params({param}).layers;
      return layers.size() == 1 &&
             std::find(again.begin(), again.end(), layers.front()) != again.end();
    });
  }

  [[nodiscard]] std::string summary() const {
    std::string text = std::to_string(arrived_.size()) + " of " + std::to_string(params_.size()) +
                       " parameters arrived on " + ranks_text(all_ranks(evidence_)) + " in " +
                       counted(static_cast<std::int64_t>(course_.steps.size()), "step") +
                       ", each ready once";
    if (arrived_.size() < params_.size()) text += "; the others are frozen";
    return text + left_out_text();
  }

  [[nodiscard]] std::string left_out_text() const {
    if (left_out_.empty()) return "";
    std::vector<std::string> params;
    std::set<std::int64_t> steps;
    for (const auto& [param, of_param] : left_out_) {
      params.push_back(param);
      steps.insert(of_param.begin(), of_param.end());
    }
    return "; in step " + std::to_string(*steps.begin()) + (steps.size() > 1 ? " and others" : "") +
           " the loss does not lead to " + some_of(params);
  }

  const Evidence& evidence_;
  Ledger ledger_;
  DrawnTokens tokens_;
  Course course_;
  const std::vector<std::string>& params_;
  std::vector<std::string> never_reached_;  // in no step, on any rank
  ResultBuilder result_;
  Affected affected_;
  std::set<std::string> lacking_;
  std::map<std::pair<int, std::int64_t>, std::vector<std::string>> absent_;
  std::map<std::pair<int, std::int64_t>, std::vector<std::string>> unreached_;
  std::map<std::pair<int, std::int64_t>, std::vector<std::string>> undecided_;
  std::map<std::string, std::set<std::int64_t>> arrived_;   // steps in which some rank had it
  std::map<std::string, std::set<std::int64_t>> left_out_;  // steps, of a script of the user's own
  std::map<std::pair<std::int64_t, std::string>, std::set<int>> told_by_reducer_;
};

}  // namespace

Check gradients_arrived() {
  return {
      "gradients_arrived",
      "every parameter gets a gradient on every rank and step, and becomes ready once",
      {"GRAD.MISSING", "GRAD.ZERO", "GRAD.DOUBLE_READY", "GRAD.NOT_FINALIZED", "GRAD.HOOK_LOST"},
      [](const Evidence& evidence) { return Arrival(evidence).judge(); },
      kWatchEvents};
}

}  // namespace harness::checks
