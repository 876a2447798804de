// Are the numbers that a rank reports of a step those of its record? Curves, floors and the check of the loss scale live from them.
#include <cmath>
#include <string>

#include "harness/checks/departed.h"
#include "harness/checks/series.h"
#include "harness/checks/step/step_stages.h"
#include "oracles/training/shares.h"

namespace harness::checks {
namespace {

constexpr double kRoom =
    0x1p-20;  // relative: a report is the record in another type, or summed in another order
// The floor is told by the data in float64, as the oracle makes it: thousands of terms, in another order.
constexpr double kFloorRoom = 0x1p-40;

struct Reports {
  explicit Reports(const Evidence& evidence)
      : loss(series_of(evidence, "loss")),
        floor(series_of(evidence, "source_floor")),
        tokens(series_of(evidence, "floor_tokens")),
        scale(series_of(evidence, "loss_scale")) {}
  Series loss;
  Series floor;
  Series tokens;
  Series scale;
};

class ReportJudge {
 public:
  ReportJudge(StepJudge& judge, const Reports& reports, const StepFile& file)
      : judge_(judge), reports_(reports), file_(file) {}

  // The numbers that were compared.
  std::int64_t judge() {
    judge_means();
    judge_scale();
    return judged_;
  }

 private:
  // Loss and floor of a step are means over the scored tokens of the rank's micro-batches.
  void judge_means() {
    const oracles::DataConfig& data = judge_.run.data;
    double loss = 0;
    double floor = 0;
    double tokens = 0;
    for (std::int64_t micro = 0; micro < data.accumulate; ++micro) {
      const oracles::BatchPlace place{file_.step, micro, file_.rank};
      const auto batch = file_.tokens(micro);
      if (!batch || batch->shape != oracles::Shape{data.batch_size, data.seq_len}) return;
      const oracles::TokenCounts counts = oracles::token_counts(data, place);
      const double weight = static_cast<double>(counts.own) / static_cast<double>(counts.of_rank);
      loss += weight * file_.of_micro("loss", micro).value_or(NAN);
      const auto scored = oracles::scored_positions(data, place);
      floor += weight * oracles::loss_floor(data, *batch, scored).value_or(NAN);
      tokens += static_cast<double>(counts.own);
    }
    compare({"LOSS.WRONG", "told_loss", "mean loss"}, reports_.loss, file_.step, loss);
    compare({"LOSS.WRONG", "told_floor", "floor of the source"},
            reports_.floor,
            file_.step,
            floor,
            kFloorRoom);
    compare({"LOSS.WRONG", "told_floor", "number of predicted tokens"},
            reports_.tokens,
            file_.step,
            std::isfinite(floor) ? tokens : NAN);
  }

  // Reported after a step is the scale that the next one uses.
  void judge_scale() {
    if (!judge_.run.scales_loss || file_.step == 1) return;
    const auto used = attested_scale(judge_, file_);
    if (!used) return;
    if (!compare(
            {"SCALER.WRONG", "told_scale", "loss scale"}, reports_.scale, file_.step - 1, *used)) {
      judge_.result.departed(departed_sample("loss_scale", file_.rank, file_.step - 1, *used));
    }
  }

  struct Report {
    const char* code;
    const char* op;
    const char* what;  // for people
  };
  // `wanted` is NaN where the record gives no such number: the data have no floor, or the loss itself is not finite, which the
  // losses' own stage says.
  // False where another number was reported.
  bool compare(const Report& report,
               const Series& series,
               std::int64_t step,
               double wanted,
               double room = kRoom) {
    const Sample* sample = series.find({file_.rank, step});
    if (!std::isfinite(wanted)) return true;
    if (sample == nullptr) {
      judge_.result.missing(std::string("the ") + report.what + " that " +
                                process_name(file_.rank) + " reports of step " +
                                std::to_string(step),
                            site_of_rank(file_.rank));
      return true;
    }
    ++judged_;
    const double found = sample->value;
    if (std::abs(found - wanted) <= room * std::abs(wanted)) return true;
    if (!std::isfinite(found) && judge_.overflowed.count(step) > 0) return true;
    Departure departure = step_departure(report.code, report.op, file_.rank, step, "forward", {}, {});
    departure.site.detail["what"] = report.what;
    departure.site.detail["found"] = Real(found);
    departure.site.detail["wanted"] = Real(wanted);
    judge_.told.add(std::move(departure));
    return false;
  }

  StepJudge& judge_;
  const Reports& reports_;
  const StepFile& file_;
  std::int64_t judged_ = 0;
};

}  // namespace

void judge_reports(StepJudge& judge) {
  const Reports reports(judge.run.evidence);
  std::int64_t judged = 0;
  for (const auto& [key, file] : judge.files) judged += ReportJudge(judge, reports, file).judge();
  if (judged > 0) judge.judged.push_back(std::to_string(judged) + " reported numbers");
}

}  // namespace harness::checks
