// The optimiser's course over the steps of a rank: the loss scale, which steps are taken, and that nothing happens between two
// steps.
#include <cmath>
#include <stdexcept>

#include "harness/checks/departed.h"
#include "harness/checks/step/step_update.h"
#include "nsa/base/text.h"
#include "oracles/training/scaler.h"

namespace harness::checks {
namespace {

// All steps of one rank, in their order.
class OptimizerCourse {
 public:
  OptimizerCourse(StepJudge& judge, int rank) : judge_(judge), rank_(rank) {}

  void judge() {
    for (std::int64_t step = 1; step <= judge_.run.training.steps; ++step) {
      const StepFile* file = judge_.file(rank_, step);
      if (file == nullptr) return;  // how many steps were taken is not known from here on
      const auto reduced = open_artefact(
          judge_.run.evidence, {rank_, "reduced_gradients", step, rank_}, judge_.result);
      if (!reduced) return;
      judge_chain(*file);
      if (!judge_step(*file, *reduced)) return;
    }
  }
  [[nodiscard]] std::int64_t elements() const { return elements_; }

 private:
  // The state at the beginning is the one at the end of the step before.
  void judge_chain(const StepFile& file) {
    const StepFile* before = file.step > 1 ? judge_.file(rank_, file.step - 1) : nullptr;
    if (before == nullptr) return;
    Departure wrong = step_departure("OPT.UPDATE_WRONG", "between_steps", rank_, file.step, "optimizer", {}, {});
    const auto path = [&](std::int64_t step) {
      return path_of(judge_.run.evidence, {rank_, "optimizer_step", step, rank_});
    };
    const double room = stand_in_error(judge_.run.evidence, path(file.step)) +
                        stand_in_error(judge_.run.evidence, path(file.step - 1));
    for (const std::string& param : judge_.run.params) {
      for (const char* part : {"p", "m", "v", "w"}) {
        const std::string now = std::string(part) + "." + param;
        const std::string then = std::string(part) + "1." + param;
        if (!file.has(now) || !before->has(then)) continue;
        if (same_bytes(file.file.at(now), before->file.at(then))) continue;
        if (is_near(file.numbers(now), before->numbers(then), room)) continue;
        judge_.result.departed({now + " of " + process_name(rank_) + ", step " +
                                    std::to_string(file.step) + " (from the step before)",
                                std::string(part) + " that goes on",
                                {}});
        if (wrong.params.empty() || wrong.params.back() != param) wrong.params.push_back(param);
      }
    }
    if (!wrong.params.empty()) judge_.told.add(std::move(wrong));
  }

  // What stands in for a recorded number may be off by this.
  static bool is_near(const oracles::Numbers& now, const oracles::Numbers& then, double room) {
    if (room <= 0.0 || now.size() != then.size()) return false;
    for (std::int64_t i = 0; i < now.size(); ++i) {
      if (!(std::abs(now[i] - then[i]) <= room)) return false;
    }
    return true;
  }

  // False where nothing can be said of the steps that follow.
  bool judge_step(const StepFile& file, const nsa::SafetensorsFile& reduced) {
    const auto judge = optimizer_step_judge(judge_, file, reduced);
    OptimizerStepJudge& step = *judge;
    if (step.lacking() > 0) {
      judge_.result.missing("state or gradient of " + std::to_string(step.lacking()) +
                            " parameters of " + process_name(rank_) + ", step " +
                            std::to_string(file.step));
      if (step.lacking() == judge_.run.params.size()) return false;
    }
    double scale = 1;
    if (judge_.run.scales_loss) {
      const auto attested = attested_scale(judge_, file);
      if (!attested) {
        judge_.result.missing("the loss scale of " + process_name(rank_) + ", step " +
                              std::to_string(file.step) + ": the loss is not finite");
        return false;
      }
      scale = *attested;
      scales_.push_back({step.finite(), scale, file.moved(judge_.run.params)});
      const auto naming = oracles::name_scales({}, scales_);
      if (!naming.right.fits()) {
        tell_scaler(file.step, naming);
        return false;
      }
      if (!step.finite()) {
        ++skipped_;
        step.judge_left_out();
        return true;
      }
    }
    if (!step.finite()) {
      judge_.result.missing("finite gradients of " + process_name(rank_) + ", step " +
                            std::to_string(file.step) + " (see the check `finite`)");
      return false;
    }
    step.judge_taken(++n_, skipped_, scale);
    elements_ += step.elements();
    return true;
  }

  // The first step whose scale, or whose choice, is not the rule's.
  void tell_scaler(std::int64_t step, const oracles::Naming& naming) {
    std::vector<bool> finite;
    for (const oracles::ScaleStep& one : scales_) finite.push_back(one.finite);
    const double wanted = oracles::scales_under("right", {}, finite).back().scale;
    Departure departure = step_departure("SCALER.WRONG", "scaler", rank_, step, "optimizer", {}, naming);
    if (scales_.back().scale != wanted) {
      departure.site.op = "scale";
      departure.site.detail["found"] = scales_.back().scale;
      departure.site.detail["wanted"] = wanted;
    }
    judge_.told.add(std::move(departure));
  }

  StepJudge& judge_;
  int rank_;
  std::int64_t n_ = 0;
  std::int64_t skipped_ = 0;
  std::vector<oracles::ScaleStep> scales_;
  std::int64_t elements_ = 0;
};

// Of a model of which rows are drawn: how likely a mistake is missed that is not in all rows of a parameter.
void tell_share(StepJudge& judge) {
  const StepFile& file = judge.files.begin()->second;
  if (file.is_whole()) return;
  std::size_t fewest = 0;
  for (const std::string& param : judge.run.params) {
    const std::size_t rows = file.rows(param).size();
    if (rows > 0 && (fewest == 0 || rows < fewest)) fewest = rows;
  }
  const double missed = std::pow(0.9, static_cast<double>(fewest));
  judge.not_judged.push_back(
      "rows of the state that were not drawn (a mistake in every row of a parameter is seen; one "
      "in a tenth of its "
      "rows is missed with a probability of at most " +
      nsa::to_text(missed, 2) + ")");
}

}  // namespace

void judge_updates(StepJudge& judge) {
  std::int64_t elements = 0;
  for (const int rank : all_ranks(judge.run.evidence)) {
    OptimizerCourse of(judge, rank);
    try {
      of.judge();
    } catch (const std::invalid_argument& error) {
      judge.result.missing("the optimiser's state of " + process_name(rank) + ": " + error.what());
    }
    elements += of.elements();
  }
  if (elements > 0) {
    judge.judged.push_back("norm, clipping and " + std::to_string(elements) +
                           " updates number by number");
    judge.result.measured("updates_judged", static_cast<double>(elements));
    tell_share(judge);
  }
}

}  // namespace harness::checks
