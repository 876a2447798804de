#include "harness/checks/step/step_kept.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "harness/checks/series.h"
#include "oracles/training/optimizer.h"

namespace harness::checks {
namespace {

constexpr oracles::Law kKept{"gradients_kept",
                             "the gradients of the step before are still in them"};

bool is_of_weight(const Departure& departure) {
  return departure.code == "NUMERIC.GRADIENT" && !departure.params.empty();
}

std::set<std::string> wrong_params(const std::vector<PartJudgement>& parts) {
  std::set<std::string> params;
  for (const PartJudgement& part : parts) {
    for (const Departure& departure : part.departures) {
      if (is_of_weight(departure)) {
        params.insert(departure.params.begin(), departure.params.end());
      }
    }
  }
  return params;
}

class KeptGradients {
 public:
  KeptGradients(StepJudge& judge, const RecordedModel& model)
      : judge_(judge), step_(*model.step), recorded_(model.gradient) {
    ResultBuilder not_needed;
    before_ = open_artefact(judge.run.evidence,
                            {step_.rank, "reduced_gradients", step_.step - 1, step_.rank},
                            not_needed);
  }
  [[nodiscard]] bool known() const { return before_.has_value(); }

  // A step's gradients are clipped where they lie, or are left alone and copies of them are clipped.
  [[nodiscard]] std::array<double, 2> factors() const {
    const Series norms = series_of(judge_.run.evidence, "grad_norm");
    const Sample* norm = norms.find({step_.rank, step_.step - 1});
    const double most = judge_.run.train.max_norm;
    return {norm == nullptr ? 1.0 : oracles::clip_factor(norm->value, most), 1.0};
  }

  // Of these parameters, what is on record without what the step before left. Refers to this object.
  [[nodiscard]] std::function<oracles::Matrix(const std::string&)> without(
      const std::set<std::string>& params, double factor) {
    for (const std::string& param : params) {
      const oracles::Matrix found = recorded_(param);
      if (found.rows == 0 || !before_->contains(param)) continue;
      std::vector<double>& own = own_[param] = found.numbers.values();
      const std::vector<double> left = numbers_of(before_->at(param)).values();
      for (std::size_t i = 0; i < own.size() && i < left.size(); ++i) {
        own[i] -= factor * left[i];
        largest_ = std::max(largest_, std::abs(factor * left[i]));
      }
    }
    return [this](const std::string& param) {
      oracles::Matrix matrix = recorded_(param);
      const auto own = own_.find(param);
      if (own != own_.end()) matrix.numbers = oracles::Numbers::of(own->second);
      return matrix;
    };
  }

  // What was left was rounded when it was clipped, and again in every sum with what came to it.
  [[nodiscard]] oracles::Rounding rounding(const oracles::Rounding& once) const {
    return {4 * once.stored, 4 * once.summed, std::max(once.flushed, 2 * once.stored * largest_)};
  }

 private:
  StepJudge& judge_;
  const StepFile& step_;
  std::function<oracles::Matrix(const std::string&)> recorded_;
  std::optional<nsa::SafetensorsFile> before_;
  std::map<std::string, std::vector<double>> own_;
  double largest_ = 0;  // of what was taken off
};

}  // namespace

void name_kept_gradients(StepJudge& judge,
                         RecordedModel& model,
                         std::vector<PartJudgement>& parts,
                         const JudgeParts& judge_again) {
  const std::set<std::string> params = wrong_params(parts);
  if (params.empty() || model.step->step == 1) return;
  KeptGradients kept(judge, model);
  if (!kept.known()) return;
  const auto recorded = model.gradient;
  const oracles::Rounding rounding = model.rounding;
  for (const double factor : kept.factors()) {
    if (!(factor > 0)) continue;  // of a step without end nothing is left
    model.gradient = kept.without(params, factor);
    model.rounding = kept.rounding(rounding);
    const bool fits_without = wrong_params(judge_again(model)).empty();
    model.gradient = recorded;
    // Wider bounds alone are no explanation.
    const bool explains = fits_without && !wrong_params(judge_again(model)).empty();
    model.rounding = rounding;
    if (!explains) continue;
    for (PartJudgement& part : parts) std::erase_if(part.departures, is_of_weight);
    oracles::Naming naming;
    naming.fitting.push_back({kKept, {}, 1, {}});
    Departure departure = step_departure("NUMERIC.GRADIENT",
                        "zero_grad",
                        model.step->rank,
                        model.step->step,
                        "backward",
                        {},
                        naming);
    departure.site.detail["factor"] = factor;
    parts.front().departures.push_back(std::move(departure));
    return;
  }
}

}  // namespace harness::checks
