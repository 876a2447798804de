#include "harness/checks/step/part_judge.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/checks/largest.h"

namespace harness::checks {

oracles::Matrix recorded_matrix(const nsa::SafetensorsFile& file, const std::string& name) {
  if (!file.contains(name)) throw std::invalid_argument("tensor " + name + " is not on record");
  const nsa::TensorView& view = file.at(name);
  const oracles::Numbers numbers = numbers_of(view);
  const std::int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  return {numbers, columns == 0 ? 0 : numbers.size() / columns, columns};
}

bool is_finite(const oracles::Matrix& matrix) {
  std::vector<double> row(static_cast<std::size_t>(matrix.columns));
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    matrix.row(r).copy_to(row.data());
    if (!std::all_of(row.begin(), row.end(), [](double x) { return std::isfinite(x); })) {
      return false;
    }
  }
  return true;
}

std::optional<Departed> RecordedModel::departed(const oracles::Matrix& found,
                                                std::optional<Right> right) const {
  for (const auto& [path, file] : files) {
    for (const auto& [name, view] : file->tensors()) {
      const void* begin = view.bytes.data();
      if (begin == found.numbers.bytes()) return departed_tensor(path, name, std::move(right));
    }
  }
  return std::nullopt;
}

void PartJudge::depart(const oracles::Matrix& found, std::optional<Right> right) {
  auto departed = model_.departed(found, std::move(right));
  if (departed) verdict_.departed.push_back(std::move(*departed));
}

void PartJudge::judge_values(const StageAt& at,
                             const oracles::Matrix& found,
                             const oracles::Expected& right,
                             const Name& name) {
  ++verdict_.stages;
  const oracles::Misfit misfit = oracles::misfit_of(found.numbers, right);
  raise_to(verdict_.worst, misfit.worst);
  if (misfit.fits()) return;
  const auto& bounds = right.bound.data;
  const double error = bounds.empty() ? 0.0 : *std::max_element(bounds.begin(), bounds.end());
  depart(found, Right{right.value.data, error});
  tell(at, name(), {{"wrong_numbers", misfit.wrong}});
}

void PartJudge::judge_projected(
    const StageAt& at,
    const oracles::Product& product,
    const std::function<oracles::Naming(const std::vector<std::int64_t>&)>& name) {
  ++verdict_.stages;
  const auto place = static_cast<std::uint64_t>(verdict_.products++);
  const std::uint64_t seed = model_.seed + 64 * static_cast<std::uint64_t>(layer_ + 1) + place;
  const oracles::ProductJudgement judged = oracles::judge_product(product, seed, 1);
  raise_to(verdict_.worst, judged.rows.worst);
  raise_to(verdict_.worst, judged.columns.worst);
  if (judged.fits()) return;
  depart(product.result, std::nullopt);
  Facts detail;
  if (!judged.wrong_rows.empty()) detail["wrong_rows"] = judged.wrong_rows.size();
  if (!judged.wrong_columns.empty()) detail["wrong_columns"] = judged.wrong_columns.size();
  tell(at, name ? name(judged.wrong_rows) : oracles::Naming{}, std::move(detail));
}

bool PartJudge::knows_gradient_of(const std::string& op) {
  if (wrong_.count(op) == 0) return true;
  if (unknown_.insert(op).second) {
    verdict_.not_judged.push_back("gradients through " + op +
                                  (layer_ < 0 ? "" : " of block " + std::to_string(layer_)) +
                                  ", whose forward is wrong");
  }
  return false;
}

std::optional<oracles::Matrix> PartJudge::gradient_of(const std::string& param) {
  const oracles::Matrix gradient = model_.gradient(param);
  if (gradient.rows == 0) {
    verdict_.not_judged.push_back("the gradient of " + param + ", which did not arrive");
    return std::nullopt;
  }
  if (!is_finite(gradient)) {
    verdict_.not_finite.push_back("the gradient of " + param);
    return std::nullopt;
  }
  return gradient;
}

oracles::Tensor PartJudge::gain(const std::string& param) const {
  oracles::Tensor gain = oracles::tensor_of(weight(param));
  gain.shape = {gain.shape.back()};
  return gain;
}

void PartJudge::tell(const StageAt& at, const oracles::Naming& naming, Facts detail) {
  const bool forward = at.way == Way::forward;
  if (forward) wrong_.insert(at.op);
  Departure departure = step_departure(forward ? "NUMERIC.FORWARD" : "NUMERIC.GRADIENT",
                      at.op,
                      model_.step->rank,
                      model_.step->step,
                      forward ? "forward" : "backward",
                      {},
                      naming);
  if (!at.param.empty()) departure.params.push_back(at.param);
  if (layer_ >= 0) departure.site.layers = {layer_};
  departure.site.detail = std::move(detail);
  departure.site.detail["tensor"] = at.tensor;
  verdict_.departures.push_back(std::move(departure));
}

}  // namespace harness::checks
