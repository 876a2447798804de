// Is what a foreign kernel gives, forward and gradients, what the float64 oracle says, in every trial and in a second call? Where
// a trial is wrong, a fresh process has called it once more, alone: what is right there was made wrong by an earlier call.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>

#include "harness/checks/attention/accuracy/worst_errors.h"
#include "harness/checks/kernel/first_wrong_trial.h"
#include "harness/checks/kernel/kernel_attention.h"
#include "harness/checks/kernel/kernel_call.h"
#include "harness/checks/kernel/kernel_choice.h"
#include "harness/checks/kernel/kernel_findings.h"
#include "harness/checks/kernel/kernel_not_finite.h"
#include "harness/checks/kernel/kernel_tried.h"
#include "harness/checks/list.h"
#include "harness/foreign/trials.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

class KernelComparison {
 public:
  explicit KernelComparison(const Evidence& evidence)
      : evidence_(evidence),
        scenario_(evidence.the_case.scenario),
        tried_(evidence.the_case.scenario) {}

  CheckResult judge() {
    if (!scenario_.is_foreign()) return inconclusive("the case has no kernel of the user's own");
    const std::vector<TrialOnRecord> trials = trials_on_record(evidence_, result_);
    if (!trials.empty()) first_length_ = trials.front().length();
    for (const TrialOnRecord& trial : trials) judge_trial(trial);
    for (const TrialOnRecord& trial : trials) compare_calls(trial);
    for (const TrialOnRecord& trial : trials) judge_fresh(trial);
    for (Finding& finding : findings_of_first(trials)) tell(std::move(finding), trials, "");
    for (Finding& finding : findings_of(second_, {evidence_, second_calls_}, scenario_)) {
      tell(std::move(finding), trials, "the second call");
    }
    if (scenario_.kernel.is_whole()) tell_what_was_certain(trials);
    errors_.put_measured(result_);
    result_.measured("calls_that_differ", static_cast<double>(differing_));
    result_.measured("rows_that_differ_alone", static_cast<double>(other_alone_));
    return result_.finish(summary());
  }

  std::optional<int> first_wrong() {
    for (const TrialOnRecord& trial : trials_on_record(evidence_, result_)) {
      const auto once = open_outputs(evidence_, trial, 1, result_);
      if (once) (void)judge_call({&trial, 1, {}, {}}, *once, first_, first_calls_);
      if (!first_.empty()) return trial.number;
    }
    return std::nullopt;
  }

 private:
  // A rounding before the softmax moves gradients too: what is wrong beside it is judged as if the spec allowed the rounding.
  std::vector<Finding> findings_of_first(const std::vector<TrialOnRecord>& trials) {
    std::vector<Finding> found = findings_of(first_, {evidence_, first_calls_}, scenario_);
    const auto rounding = std::find_if(found.begin(), found.end(), [](const Finding& finding) {
      return finding.variant == "kernel_rounding";
    });
    if (rounding == found.end() || found.size() == 1 || scenario_.kernel.allow != "none") {
      return found;
    }
    allow_ = rounding->site.detail.value("law", std::string("none"));
    std::vector<Departure> others;
    std::vector<JudgedCall> calls;
    for (const TrialOnRecord& trial : trials) {
      const auto once = open_outputs(evidence_, trial, 1, result_);
      if (once) judge_call({&trial, 1, {}, {}}, *once, others, calls);
    }
    std::vector<Finding> all = {std::move(*rounding)};
    for (Finding& other : findings_of(others, {evidence_, calls}, scenario_)) {
      all.push_back(std::move(other));
    }
    return all;
  }

  // What the trial gave as the first call of a fresh process, where that was tried.
  void judge_fresh(const TrialOnRecord& trial) {
    const auto outputs = open_fresh_outputs(evidence_, trial, result_);
    std::vector<Departure> wrong;
    std::vector<JudgedCall> calls;
    if (!outputs || !judge_call({&trial, 1, {}, {}}, *outputs, wrong, calls)) return;
    std::set<std::string> abouts;
    for (const Departure& one : wrong) abouts.insert(about_of(one));
    for (Departure& one : first_) {
      if (one.site.layers.front() != trial.number) continue;
      if (abouts.empty()) one.facts["fresh"] = trial.name;
      if (abouts.contains(about_of(one))) one.facts["fresh_wrong"] = trial.name;
    }
  }

  void judge_trial(const TrialOnRecord& trial) {
    const auto once = open_outputs(evidence_, trial, 1, result_);
    if (!once || !judge_call({&trial, 1, {}, {}}, *once, first_, first_calls_)) return;
    if (!nothing_certain_.contains(trial.number)) tried_.take(trial);
    if (const auto of = trial.number_said("alone_of")) compare_alone(*once, *of);
  }

  // What is wrong in second calls alone is reported where every first call is right. Else it is the same mistake.
  void compare_calls(const TrialOnRecord& trial) {
    if (trial.number_said("calls").value_or(1) < 2) return;
    const auto once = open_outputs(evidence_, trial, 1, result_);
    if (!once) return;
    const auto again = open_outputs(evidence_, trial, 2, result_);
    if (!again || same_tensors(*once, *again)) return;
    ++differing_;
    varying_ += numbers_that_differ(*once, *again);
    if (first_.empty()) judge_call({&trial, 2, {}, {}}, *again, second_, second_calls_);
  }

  bool judge_call(JudgedCall call,
                  const nsa::SafetensorsFile& outputs,
                  std::vector<Departure>& list,
                  std::vector<JudgedCall>& calls) {
    const TrialOnRecord& trial = *call.trial;
    try {
      const LayerJudgement judged = judgement_of(trial, outputs);
      call.compared = judged.compared;
      call.positions = judged.positions;
      calls.push_back(std::move(call));
      note_absent(trial, outputs);
      errors_.take(judged.errors);
      for (Departure seen : judged.departures) {
        seen.site.layers = {trial.number};
        seen.facts["trial"] = {trial.name};
        list.push_back(std::move(seen));
      }
      for (const std::string& lacking : judged.missing) {
        result_.missing(lacking + " in the trial " + trial.name);
      }
      return true;
    } catch (const nsa::Error& error) {
      result_.missing("the trial " + trial.name + ", which cannot be judged: " + error.what());
    } catch (const std::invalid_argument& error) {
      result_.missing("the trial " + trial.name + ", which the oracle refuses: " + error.what());
    } catch (const std::out_of_range& error) {
      result_.missing("the trial " + trial.name + ", which lacks a tensor: " + error.what());
    }
    return false;
  }

  LayerJudgement judgement_of(const TrialOnRecord& trial, const nsa::SafetensorsFile& outputs) {
    const nsa::SafetensorsFile& inputs = trial.inputs;
    Scenario own = scenario_of_trial(scenario_, inputs);
    if (!allow_.empty()) own.kernel.allow = allow_;
    if (scenario_.kernel.is_whole()) {
      const AttentionJudgement whole =
          judge_kernel_attention(own, inputs, outputs, trial.said("gate"));
      rows_certain_ += whole.rows;
      rows_in_all_ += whole.rows_asked;
      if (whole.rows == 0) nothing_certain_.insert(trial.number);
      if (trial.length() <= first_length_) {
        short_certain_ += whole.rows;
        short_in_all_ += whole.rows_asked;
      }
      with_gradients_ += whole.of_gradients ? 1 : 0;
      return whole.judged;
    }
    if (!scenario_.kernel.chooses()) {
      return judge_kernel_call(own, read_kernel_call(own, inputs, outputs));
    }
    const ChoiceJudgement choice = judge_kernel_choice(own, inputs, outputs);
    LayerJudgement judged;
    judged.departures = choice.departures;
    judged.missing = choice.missing;
    rows_chosen_ += choice.rows;
    // Of a choice there is no error: it is right or wrong.
    if (scenario_.kernel.level == "score")
      judged.errors["scores"] = {choice.worst_share_of_bound, 1.0};
    return judged;
  }

  // Queries whose choice of blocks rounding could turn are not judged: too many of them, and nothing is. In trials with many
  // candidates there are always many, in a narrow type most.
  void tell_what_was_certain(const std::vector<TrialOnRecord>& trials) {
    if (trials.empty()) return;
    result_.measured("queries_left_out", static_cast<double>(rows_in_all_ - rows_certain_));
    if (2 * short_certain_ < short_in_all_) {
      result_.missing("queries whose choice of blocks is certain: " +
                      std::to_string(short_certain_) + " of " + std::to_string(short_in_all_));
    }
    if (scenario_.kernel.gradients && with_gradients_ == 0 && first_.empty()) {
      result_.missing("gradients of a trial in which the choice of blocks is certain");
    }
  }

  static bool same_tensors(const nsa::SafetensorsFile& a, const nsa::SafetensorsFile& b) {
    return std::all_of(a.tensors().begin(), a.tensors().end(), [&](const auto& entry) {
      return b.contains(entry.first) && same_bytes(entry.second, b.at(entry.first));
    });
  }

  // Of the output alone: gradients may be summed in any order.
  [[nodiscard]] std::int64_t numbers_that_differ(const nsa::SafetensorsFile& a,
                                                 const nsa::SafetensorsFile& b) const {
    const char* const result = result_of_level(scenario_.kernel.level);
    const std::span<const std::byte> one = a.at(result).bytes;
    const std::span<const std::byte> two = b.at(result).bytes;
    const auto width = static_cast<std::size_t>(nsa::dtype_bytes(a.at(result).dtype));
    std::int64_t count = 0;
    for (std::size_t at = 0; at + width <= std::min(one.size(), two.size()); at += width) {
      const auto of_two = two.subspan(at, width);
      const auto of_one = one.subspan(at, width);
      if (!std::equal(of_one.begin(), of_one.end(), of_two.begin())) ++count;
    }
    return count;
  }

  // Gradients of which automatic differentiation says that the output does not depend on the input. Where none came at all, there
  // are no keys.
  void note_absent(const TrialOnRecord& trial, const nsa::SafetensorsFile& outputs) {
    const auto& all = outputs.tensors();
    const bool any = std::any_of(
        all.begin(), all.end(), [](const auto& entry) { return entry.first.starts_with('d'); });
    if (!scenario_.kernel.gradients || !any) return;
    for (const auto& entry : trial.inputs.tensors()) {
      const bool input = entry.first != "do" && entry.first != "blocks";
      if (input && !outputs.contains("d" + entry.first)) absent_.insert("d" + entry.first);
    }
  }

  // All that is wrong is what never came.
  [[nodiscard]] bool is_absence(const Finding& finding) const {
    const nlohmann::json* tensors = finding.facts.find("tensors");
    if (finding.code != "NUMERIC.GRADIENT" || tensors == nullptr) return false;
    return tensors->is_array() && !tensors->empty() &&
           std::all_of(tensors->begin(), tensors->end(), [this](const auto& name) {
             return name.is_string() && absent_.contains(name.template get<std::string>());
           });
  }

  // Rows of a sequence that are other bits when it is not one of a batch. Both are judged by the oracle: that they differ is
  // worth knowing and no failure, since a sum may be split by the size of the batch.
  void compare_alone(const nsa::SafetensorsFile& alone, std::int64_t of) {
    const Artefact* const row =
        find_artefact(evidence_, {0, kKernelOutputs, 1, 0, static_cast<int>(of)});
    if (row == nullptr) return;
    const auto batch =
        open_artefact(evidence_, {0, kKernelOutputs, 1, 0, static_cast<int>(of)}, result_);
    if (!batch) return;
    const char* const result = result_of_level(scenario_.kernel.level);
    const nsa::TensorView& one = alone.at(result);
    const std::span<const std::byte> all = batch->at(result).bytes;
    const auto row_bytes = static_cast<std::size_t>(one.shape.back() * nsa::dtype_bytes(one.dtype));
    // It is the last of the batch.
    const std::span<const std::byte> last = all.last(std::min(all.size(), one.bytes.size()));
    for (std::size_t begin = 0; begin + row_bytes <= last.size(); begin += row_bytes) {
      const auto of_batch = last.subspan(begin, row_bytes);
      if (!std::equal(of_batch.begin(),
                      of_batch.end(),
                      one.bytes.begin() + static_cast<std::ptrdiff_t>(begin)))
        ++other_alone_;
    }
  }

  // Every trial that is wrong has several sequences, and there are others.
  static void put_batches(Finding& finding, const std::vector<TrialOnRecord>& trials) {
    const std::vector<int>& wrong = finding.site.layers;
    const auto fits = [&](const TrialOnRecord& trial) {
      const bool is_wrong = std::find(wrong.begin(), wrong.end(), trial.number) != wrong.end();
      return !is_wrong || trial.batch() > 1;
    };
    const bool others = std::any_of(
        trials.begin(), trials.end(), [](const TrialOnRecord& one) { return one.batch() == 1; });
    if (others && std::all_of(trials.begin(), trials.end(), fits))
      finding.facts["only"] = "batches of several sequences";
  }

  void tell(Finding finding, const std::vector<TrialOnRecord>& trials, const std::string& call) {
    std::vector<std::string> names;
    for (const int number : finding.site.layers) {
      const auto at = std::find_if(trials.begin(), trials.end(), [&](const TrialOnRecord& trial) {
        return trial.number == number;
      });
      if (at != trials.end()) names.push_back(at->name);
    }
    put_batches(finding, trials);
    put_trials(names, finding);
    if (!call.empty()) finding.facts["call"] = call;
    if (varying_ > 0 && finding.code == "NUMERIC.FORWARD") finding.facts["varying"] = varying_;
    if (is_absence(finding)) {
      finding.code = "GRAD.MISSING";
      for (const FactName fact : {FactName("about"),
                                  FactName("error"),
                                  FactName("limit"),
                                  FactName("pattern"),
                                  FactName("first"),
                                  FactName("found"),
                                  FactName("wanted"),
                                  FactName("sequences"),
                                  FactName("alone")}) {
        finding.facts.erase(fact);
      }
    }
    result_.found(std::move(finding));
  }

  [[nodiscard]] std::string summary() const {
    const std::string tried = "in " + tried_.tried() + ": ";
    const std::string not_tried = "; " + tried_.not_tried();
    if (scenario_.kernel.level == "select") {
      return tried + "the blocks of " + std::to_string(rows_chosen_) +
             " rows are those that the scores demand" + not_tried;
    }
    if (scenario_.kernel.level == "score") {
      return tried + "the scores are the oracle's; nearest to the bound on its rounding is " +
             errors_.nearest() + not_tried;
    }
    return tried + "the kernel's output" + (scenario_.kernel.lse == "none" ? "" : ", sums") +
           (scenario_.kernel.gradients ? " and gradients are" : " is") + " what the oracle gives" +
           (scenario_.kernel.is_whole() ? " for " + std::to_string(rows_certain_) + " of " +
                                              std::to_string(rows_in_all_) + " queries"
                                        : "") +
           "; nearest to its limit is " + errors_.nearest() + not_tried;
  }

  const Evidence& evidence_;
  const Scenario& scenario_;
  ResultBuilder result_;
  std::vector<Departure> first_;  // in first calls
  std::vector<Departure> second_;
  std::vector<JudgedCall> first_calls_;
  std::vector<JudgedCall> second_calls_;
  std::string allow_;  // a rounding, in the place of what the spec says
  WorstErrors errors_;
  KernelTried tried_;
  std::int64_t rows_chosen_ = 0;
  std::int64_t rows_certain_ = 0;  // of a whole layer
  std::int64_t rows_in_all_ = 0;
  std::int64_t first_length_ = 0;  // of the trials; those that are no longer are the next two
  std::int64_t short_certain_ = 0;
  std::int64_t short_in_all_ = 0;
  std::set<int> nothing_certain_;  // trials in which no query could be judged
  std::int64_t with_gradients_ = 0;
  std::int64_t differing_ = 0;
  std::int64_t varying_ = 0;      // numbers of the output that a second call gave otherwise
  std::set<std::string> absent_;  // gradients that did not come, though others did
  std::int64_t other_alone_ = 0;
};

}  // namespace

std::optional<int> first_wrong_trial(const Evidence& evidence) {
  const Scenario& scenario = evidence.the_case.scenario;
  if (!scenario.is_foreign() || !scenario.has_check("kernel_is_oracle")) return std::nullopt;
  return KernelComparison(evidence).first_wrong();
}

Check kernel_is_oracle() {
  return {"kernel_is_oracle",
          "of kind kernel: output and gradients of the user's kernel are the float64 oracle's, in "
          "every trial; its choice of blocks is what the scores demand",
          {"NUMERIC.FORWARD",
           "NUMERIC.GRADIENT",
           "GRAD.MISSING",
           kNotFinite,
           "MASK.ALIGNMENT",
           "MASK.POLARITY",
           "MASK.ABSENT",
           "OVERFLOW.INDEX",
           "SELECTION.WRONG",
           "RANGE.INVALID"},
          [](const Evidence& evidence) { return KernelComparison(evidence).judge(); }};
}

}  // namespace harness::checks
