// Were the right blocks chosen? Scores within the rigorous bound on their rounding, the choice exactly what the scores demand,
// in every row. Rows in which the oracle's own scores would choose otherwise, within the bound, are ties: told, never failed.
#include <stdexcept>

#include "harness/checks/attention/packed/packed_judge.h"
#include "harness/checks/attention/record/layer_survey.h"
#include "harness/checks/attention/selection/choice_judge.h"
#include "harness/checks/largest.h"
#include "harness/checks/list.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

class SelectionJudge {
 public:
  explicit SelectionJudge(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) {
      for (const LayerPlace& at : layers_to_judge(evidence_, rank)) judge_one(at);
    }
    for (Finding& finding : deviations_.findings()) result_.found(std::move(finding));
    result_.measured("selection_rows", static_cast<double>(rows_));
    result_.measured("selection_rows_tied", static_cast<double>(ties_));
    if (ties_ > 0) result_.measured("selection_tie_gap", tie_gap_, tie_bound_);
    result_.measured("score_error_share_of_bound", worst_, 1.0);
    std::string text = "in " + std::to_string(rows_) +
                       " rows the blocks are what their scores demand, and the scores are the "
                       "oracle's within the bound on their rounding";
    if (ties_ > 0) {
      text += "; SELECTION.TIE in " + std::to_string(ties_) + " rows (gap " +
              nsa::to_text(tie_gap_, 3) + ", bound " + nsa::to_text(tie_bound_, 3) + ")";
    }
    return result_.finish(text);
  }

 private:
  void judge_one(const LayerPlace& at) {
    if (is_packed(evidence_)) {
      judge_record(open_packed(evidence_, at, result_), at);
    } else {
      judge_record(open_record(evidence_, at, kLayer, result_), at);
    }
  }

  template <typename Record>
  void judge_record(const std::optional<Record>& record, const LayerPlace& at) {
    if (!record) return;
    try {
      take(judge_choice(*record), at);
    } catch (const std::invalid_argument& error) {
      result_.missing(text_of(at) + " cannot be judged: the oracle refuses it: " + error.what(),
                      site_of_layer(at.rank, at.layer));
    }
  }

  void take(const ChoiceJudgement& judged, const LayerPlace& at) {
    for (const std::string& lacking : judged.missing) {
      result_.missing(lacking + " in " + text_of(at), site_of_layer(at.rank, at.layer));
    }
    for (const Deviation& seen : judged.deviations) deviations_.add(seen, at);
    rows_ += judged.rows;
    ties_ += judged.ties;
    raise_to(worst_, judged.worst_share_of_bound);
    if (judged.ties > 0 && judged.tie_gap >= tie_gap_) {
      tie_gap_ = judged.tie_gap;
      tie_bound_ = judged.tie_bound;
    }
  }

  const Evidence& evidence_;
  ResultBuilder result_;
  Deviations deviations_;
  std::int64_t rows_ = 0;
  std::int64_t ties_ = 0;
  double tie_gap_ = 0.0;
  double tie_bound_ = 0.0;
  double worst_ = 0.0;
};

}  // namespace

Check selection_valid() {
  return {"selection_valid",
          "the chosen blocks are valid lists that the queries may see, and those that right scores "
          "demand",
          {"SELECTION.WRONG", "SELECTION.TIE", "RANGE.INVALID"},
          [](const Evidence& evidence) { return SelectionJudge(evidence).judge(); }};
}

}  // namespace harness::checks
