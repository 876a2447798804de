// Were the right blocks chosen? Scores within the rigorous bound on their rounding, the choice exactly what the scores demand,
// in every row. Rows in which the oracle's own scores would choose otherwise, within the bound, are ties: told, never failed.
#include "harness/checks/attention/packed/packed_judge.h"
#include "harness/checks/attention/record/judge_recorded.h"
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
      for (const LayerPlace& at : layers_to_judge(evidence_, rank)) {
        judge_recorded(
            evidence_, at, result_, [&](const auto& record) { take(judge_choice(record), at); });
      }
    }
    for (Finding& finding : departures_.findings()) result_.found(std::move(finding));
    result_.measured("selection_rows", static_cast<double>(rows_));
    result_.measured("selection_rows_tied", static_cast<double>(ties_.rows));
    if (ties_.rows > 0) result_.measured("selection_tie_gap", ties_.gap, ties_.bound);
    result_.measured("score_error_share_of_bound", worst_, 1.0);
    std::string text = "in " + std::to_string(rows_) +
                       " rows the blocks are what their scores demand, and the scores are the "
                       "oracle's within the bound on their rounding";
    if (ties_.rows > 0) {
      text += "; SELECTION.TIE in " + std::to_string(ties_.rows) + " rows (gap " +
              nsa::to_text(ties_.gap, 3) + ", bound " + nsa::to_text(ties_.bound, 3) + ")";
    }
    return result_.finish(text);
  }

 private:
  void take(const ChoiceJudgement& judged, const LayerPlace& at) {
    take_judged(judged, at, result_, departures_);
    rows_ += judged.rows;
    ties_.take(judged.ties);
    raise_to(worst_, judged.worst_share_of_bound);
  }

  const Evidence& evidence_;
  ResultBuilder result_;
  Departures departures_;
  std::int64_t rows_ = 0;
  Ties ties_;
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
