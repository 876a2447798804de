// Does a foreign kernel look into the future, or at another sequence of the batch? Two trials are the same but for one sequence,
// which is another from a position on (0: all of it), and no gradient comes in there. What belongs to the positions before it, and
// to all other sequences, must be the same, bit by bit, and no gradient reaches the keys and values that were changed. A kernel
// whose two calls with the same inputs differ has other bits without any of this: of its output only what differs by much more
// than these two calls counts.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/checks/kernel/kernel_call.h"
#include "harness/checks/kernel/kernel_trials.h"
#include "harness/checks/list.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Block numbers are exact in doubles too.
std::vector<double> numbers_of(const nsa::TensorView& view) {
  if (view.dtype != nsa::DType::i64) return nsa::to_doubles(view);
  const std::vector<std::int64_t> blocks = nsa::to_int64s(view);
  return {blocks.begin(), blocks.end()};
}

using RowsOfSequences = std::map<int, std::set<int>>;  // positions, by the place in the batch

// Rows of a tensor [B,N,rows,width] for which `differs` holds at some number.
template <typename Differs>
RowsOfSequences rows_where(const nsa::TensorView& view, Differs differs) {
  RowsOfSequences rows;
  const auto width = static_cast<std::size_t>(view.shape.at(3));
  const auto count = static_cast<std::size_t>(view.shape.at(2));
  const auto lists = static_cast<std::size_t>(view.shape.at(1));
  const std::size_t size =
      view.bytes.size() / static_cast<std::size_t>(nsa::dtype_bytes(view.dtype));
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<int>(i / width % count);
    const auto sequence = static_cast<int>(i / width / count / lists);
    if (differs(i, sequence, row)) rows[sequence].insert(row);
  }
  return rows;
}

// What a trial has changed.
struct Changed {
  int sequence = 0;
  std::int64_t first = 0;  // from this position on

  [[nodiscard]] bool has(int of_sequence, std::int64_t position) const {
    return of_sequence == sequence && position >= first;
  }
  [[nodiscard]] bool is_all() const { return first == 0; }
};

// The largest difference of two such calls is one of thousands of numbers: chance alone exceeds it, but not by this.
constexpr double kTimesTheNoise = 8.0;

class FutureJudge {
 public:
  explicit FutureJudge(const Evidence& evidence)
      : evidence_(evidence), scenario_(evidence.the_case.scenario) {}

  CheckResult judge() {
    if (!scenario_.is_foreign()) return inconclusive("the case has no kernel of the user's own");
    const std::vector<TrialOnRecord> trials = trials_on_record(evidence_, result_);
    for (const TrialOnRecord& trial : trials) {
      const auto of = trial.number_said("perturbed_of");
      const auto first = trial.number_said("first");
      const auto sequence = trial.number_said("sequence");
      if (!of || !first || !sequence) continue;
      for (const TrialOnRecord& plain : trials) {
        if (plain.number != *of) continue;
        compare(plain, trial, {static_cast<int>(*sequence), *first});
      }
    }
    for (const auto& [variant, leaks] : leaks_) tell(variant, leaks);
    if (pairs_ == 0) result_.missing("two trials that are the same up to a position");
    if (noise_ > 0.0) result_.measured("difference_of_two_calls", noise_);
    const std::string same =
        noise_ > 0.0 ? " differs by no more than eight times what two calls with the same inputs "
                       "differ by"
                     : " is the same, bit by bit";
    const std::string future = "the output before a position" + same + ", whatever comes after it";
    const std::string others =
        batches_ > 0 ? ", and whatever another sequence of the batch holds" : "";
    const std::string back =
        scenario_.kernel.gradients ? "; no gradient reaches what was changed" : "";
    return result_.finish(future + others + back +
                          (batches_ > 0 ? "" : "; not tried: batches of several sequences"));
  }

 private:
  void compare(const TrialOnRecord& plain, const TrialOnRecord& other, const Changed& changed) {
    const auto one = open_outputs(evidence_, plain, 1, result_);
    const auto two = open_outputs(evidence_, other, 1, result_);
    if (!one || !two) return;
    try {
      ++pairs_;
      if (changed.is_all()) ++batches_;
      compare({*one, *two, plain, other, changed}, leaks_);
      judge_fresh({*one, *two, plain, other, changed});
    } catch (const nsa::Error& error) {
      result_.missing(std::string("trials that can be compared: ") + error.what());
    } catch (const std::out_of_range&) {
      result_.missing("trials that can be compared: an axis is missing");
    }
  }

  struct Pair {
    const nsa::SafetensorsFile& one;  // what the plain trial gave, and the other one
    const nsa::SafetensorsFile& two;
    const TrialOnRecord& plain;
    const TrialOnRecord& trial;
    const Changed& changed;
  };

  // All leaks of one kind are one mistake.
  struct Leaks {
    std::vector<std::string> trials;
    std::vector<std::string> tensors;
    std::vector<std::string> places;
    std::set<int> sequences;  // that are another
    std::set<int> rows;
    bool in_batches = true;  // all of them are, of several sequences
    std::int64_t first = 0;  // the position from which on the first of the trials is another
  };
  using LeaksOfKinds = std::map<std::string, Leaks>;  // by variant

  void compare(const Pair& pair, LeaksOfKinds& leaks) {
    if (compare_forward(pair, leaks) && scenario_.kernel.gradients) compare_backward(pair, leaks);
  }

  // A fresh process has called this trial alone. What leaked in the trial, and does not leak there, was left by an earlier call:
  // kernel_is_oracle tells it.
  void judge_fresh(const Pair& pair) {
    const auto fresh = open_fresh_outputs(evidence_, pair.trial, result_);
    if (!fresh) return;
    LeaksOfKinds alone;
    compare({pair.one, *fresh, pair.plain, pair.trial, pair.changed}, alone);
    for (const auto& [variant, leaks] : leaks_) {
      const bool here = std::find(leaks.trials.begin(), leaks.trials.end(), pair.trial.name) !=
                        leaks.trials.end();
      if (here && !alone.contains(variant)) left_.insert(variant);
    }
  }

  bool compare_forward(const Pair& pair, LeaksOfKinds& leaks) {
    const auto& [one, two, plain, trial, changed] = pair;
    const char* const result = result_of_level(scenario_.kernel.level);
    const nsa::TensorView& before = one.at(result);
    const nsa::TensorView& after = two.at(result);
    if (before.dtype != after.dtype || before.shape != after.shape) {
      throw nsa::Error(after.where + ": has another dtype or shape than in the first trial");
    }
    const std::vector<double> x = numbers_of(before);
    const std::vector<double> y = numbers_of(after);
    noise_ = std::max(noise_, noise_of(plain, x));
    const double limit = kTimesTheNoise * noise_;
    const Changed& of = changed;
    const RowsOfSequences apart = rows_where(after, [&](std::size_t i, int sequence, int row) {
      const bool same =
          x[i] == y[i] || std::abs(x[i] - y[i]) <= limit || (std::isnan(x[i]) && std::isnan(y[i]));
      return !same && !of.has(sequence, row);
    });
    for (const auto& [sequence, rows] : apart) {
      const bool own = sequence == changed.sequence;
      note({trial, changed, sequence, rows, result},
           leaks[own ? "kernel_forward" : "kernel_sequence"]);
    }
    return apart.empty();
  }

  // The largest difference between the two calls of a trial; infinite where one of them alone is no number.
  double noise_of(const TrialOnRecord& plain, const std::vector<double>& first_call) {
    if (plain.number_said("calls").value_or(1) < 2) return 0.0;
    const auto again = open_outputs(evidence_, plain, 2, result_);
    if (!again) return 0.0;
    const std::vector<double> second =
        numbers_of(again->at(result_of_level(scenario_.kernel.level)));
    if (second.size() != first_call.size()) return 0.0;  // kernel_is_oracle refuses its shape
    double noise = 0.0;
    for (std::size_t i = 0; i < second.size(); ++i) {
      if (std::isnan(second[i]) != std::isnan(first_call[i])) return HUGE_VAL;
      const double gap = std::abs(second[i] - first_call[i]);
      if (gap > noise) noise = gap;
    }
    return noise;
  }

  // What is no number in both trials, or beside an output that has such numbers, did not come from what was changed:
  // kernel_is_oracle tells it. Of a sequence that was changed one and all, the gradient comes from
  // another one. Where it does so its future says no more.
  void compare_backward(const Pair& pair, LeaksOfKinds& leaks) {
    const Changed& changed = pair.changed;
    const bool compressed = scenario_.kernel.level == "attend_cmp";
    const nsa::ModelConfig& m = scenario_.model;
    const std::vector<double> output =
        numbers_of(pair.two.at(result_of_level(scenario_.kernel.level)));
    const bool finite = std::all_of(
        output.begin(), output.end(), [](double value) { return std::isfinite(value); });
    for (const auto& [name, view] : pair.two.tensors()) {
      if (!name.starts_with("dk") && !name.starts_with("dv")) continue;
      const Reals values(view);
      const Reals before(pair.one.at(name));
      if (pair.one.at(name).shape != view.shape) {
        throw nsa::Error(view.where + ": has another shape than in the first trial");
      }
      const RowsOfSequences reached = rows_where(view, [&](std::size_t i, int sequence, int row) {
        const std::int64_t last = compressed ? row * m.d + m.l - 1 : row;
        const bool has_finding = !std::isfinite(values[i]) && !(finite && std::isfinite(before[i]));
        return changed.has(sequence, last) && !has_finding && values[i] != 0.0;
      });
      for (const auto& [sequence, rows] : reached) {
        const auto others = leaks.find("kernel_sequence_back");
        const bool known = others != leaks.end() && others->second.sequences.contains(sequence);
        if (known && !changed.is_all()) continue;
        note({pair.trial, changed, sequence, rows, name},
             leaks[changed.is_all() ? "kernel_sequence_back" : "kernel_backward"]);
      }
    }
  }

  struct Leak {
    const TrialOnRecord& trial;
    const Changed& changed;
    int sequence;  // that is another
    const std::set<int>& rows;
    std::string tensor;
  };

  static void add_new(const std::string& name, std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  static void note(const Leak& leak, Leaks& all) {
    if (all.trials.empty()) all.first = leak.changed.first;
    add_new(leak.trial.name, all.trials);
    add_new(leak.tensor, all.tensors);
    std::string place = numbers_text("row", to_ints(leak.rows));
    if (leak.trial.batch() > 1) place += " of sequence " + std::to_string(leak.sequence);
    if (leak.sequence != leak.changed.sequence) {
      place += " where sequence " + std::to_string(leak.changed.sequence) + " changed";
    } else if (!leak.changed.is_all()) {
      place += " (position " + std::to_string(leak.changed.first) + ")";
    }
    add_new(place, all.places);
    all.in_batches = all.in_batches && leak.trial.batch() > 1;
    all.sequences.insert(leak.sequence);
    all.rows.insert(leak.rows.begin(), leak.rows.end());
  }

  void tell(const std::string& variant, const Leaks& all) {
    if (left_.contains(variant)) {
      result_.missing("what does not leak in a fresh process, and does after other calls: " +
                      nsa::join(all.tensors));
      return;
    }
    const bool back = variant == "kernel_backward" || variant == "kernel_sequence_back";
    Finding finding = of_level(variant, back ? "backward" : "forward", all.trials, all.rows);
    if (all.in_batches && all.sequences.size() == 1) finding.site.sequence = *all.sequences.begin();
    if (all.first > 0) finding.site.detail["perturbed_from"] = all.first;
    finding.facts.put_some("tensors", all.tensors);
    finding.facts.put_some("places", all.places);
    result_.found(std::move(finding));
  }

  [[nodiscard]] Finding of_level(const std::string& variant,
                                 const char* phase,
                                 const std::vector<std::string>& trials,
                                 const std::set<int>& rows) const {
    Finding finding = make_finding("CAUSALITY.LEAK", variant);
    put_trials(trials, finding);
    finding.site.op = scenario_.kernel.level;
    if (scenario_.kernel.level.starts_with("attend_")) {
      finding.site.branch = oracles::branch_name(branch_of_level(scenario_.kernel.level));
    }
    finding.site.phase = phase;
    finding.site.rows = to_ints(rows);
    finding.site.detail["row_count"] = rows.size();
    if (noise_ > 0.0) finding.facts["noise"] = noise_;
    return finding;
  }

  const Evidence& evidence_;
  const Scenario& scenario_;
  ResultBuilder result_;
  double noise_ = 0.0;  // by how much the outputs of two calls with the same inputs differ
  int pairs_ = 0;
  int batches_ = 0;  // of them with one sequence that is all another
  LeaksOfKinds leaks_;
  std::set<std::string> left_;  // variants of leaks that a fresh process does not show
};

}  // namespace

Check kernel_causal() {
  return {"kernel_causal",
          "of kind kernel: nothing before a position depends on what comes after it, and no "
          "sequence of "
          "a batch on another, bit by bit",
          {"CAUSALITY.LEAK"},
          [](const Evidence& evidence) { return FutureJudge(evidence).judge(); }};
}

}  // namespace harness::checks
