// Is the attention of every layer, forward and gradients, what the float64 oracle says? The choice of
// blocks is judged here too, unless the case also asks for selection_valid, which then tells it.
#include <algorithm>
#include <stdexcept>

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/attention/accuracy/worst_errors.h"
#include "harness/checks/attention/packed/packed_judge.h"
#include "harness/checks/attention/record/judge_recorded.h"
#include "harness/checks/attention/selection/choice_judge.h"
#include "harness/checks/list.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

class OracleComparison {
 public:
  explicit OracleComparison(const Evidence& evidence)
      : evidence_(evidence), model_(evidence.the_case.scenario.model) {
    const auto& checks = evidence.the_case.scenario.checks;
    tells_choice_ = std::find(checks.begin(), checks.end(), "selection_valid") == checks.end();
  }

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) {
      for (const LayerPlace& at : layers_to_judge(evidence_, rank)) {
        judge_recorded(evidence_, at, result_, [&](const auto& record) { judge_one(record, at); });
      }
    }
    for (Finding& finding : departures_.findings()) result_.found(std::move(finding));
    errors_.put_measured(result_);
    if (rows_ < rows_in_all_) {
      result_.measured("rows_judged", static_cast<double>(rows_));
      result_.measured("rows_in_all", static_cast<double>(rows_in_all_));
    }
    if (ties_.rows > 0) {
      result_.measured("selection_rows_tied", static_cast<double>(ties_.rows));
      result_.measured("selection_tie_gap", ties_.gap, ties_.bound);
    }
    return result_.finish(summary());
  }

 private:
  template <typename Record>
  void judge_one(const Record& record, const LayerPlace& at) {
    if (tells_choice_) {
      const ChoiceJudgement choice = judge_choice(record);
      ties_.take(choice.ties);
      take_judged(choice, at, result_, departures_);
    }
    const LayerJudgement judged = judge_layer(record, model_);
    take_judged(judged, at, result_, departures_);
    take_departed(judged, evidence_, at, result_);
    if (judged.rows_without_list > 0) say_selected_is_hidden(judged.rows_without_list, at);
    layers_.insert(at.layer);
    rows_ += judged.rows;
    rows_in_all_ += judged.rows_in_all;
    errors_.take(judged.errors);
  }

  void say_selected_is_hidden(std::int64_t rows, const LayerPlace& at) {
    Site site = site_of_layer(at.rank, at.layer);
    site.op = "attend_sel";
    site.branch = "sel";
    result_.not_judged(
        "o_sel of " + counted(rows, "row") + " without a valid list of blocks in " + text_of(at),
        site);
  }

  [[nodiscard]] std::string summary() const {
    std::string text =
        (layers_.size() == 1 ? "layer " : "layers ") + nsa::ranges_text(to_ints(layers_)) + " on " +
        ranks_text(all_ranks(evidence_)) + ": forward" + (tells_choice_ ? ", blocks" : "") +
        " and gradients are the oracle's; nearest to its ceiling is " + errors_.nearest();
    if (rows_ < rows_in_all_) {
      text +=
          "; judged in " + std::to_string(rows_) + " of " + std::to_string(rows_in_all_) + " rows";
    }
    if (ties_.rows > 0) {
      text += "; " + std::to_string(ties_.rows) +
              " rows chose other blocks within the bound of their scores";
    }
    return text;
  }

  const Evidence& evidence_;
  const nsa::ModelConfig& model_;
  bool tells_choice_ = true;
  ResultBuilder result_;
  Departures departures_;
  WorstErrors errors_;
  std::set<int> layers_;
  std::int64_t rows_ = 0;
  std::int64_t rows_in_all_ = 0;
  Ties ties_;
};

}  // namespace

Check close_to_oracle() {
  return {"close_to_oracle",
          "attention, forward and gradients, stage by stage, is the float64 oracle's",
          {"NUMERIC.FORWARD",
           "NUMERIC.GRADIENT",
           "MASK.ALIGNMENT",
           "MASK.POLARITY",
           "MASK.ABSENT",
           "OVERFLOW.INDEX",
           "GATE.OVERRIDE",
           "SELECTION.WRONG",
           "RANGE.INVALID",
           "CAUSALITY.LEAK"},
          [](const Evidence& evidence) { return OracleComparison(evidence).judge(); }};
}

}  // namespace harness::checks
