#include "harness/checks/step/step_told.h"

#include <algorithm>
#include <iterator>

namespace harness::checks {
namespace {

// The order of a step. What is none of these is a stage of the model.
constexpr std::string_view kOrder[] = {
    "data",       "initial_values", "",         "loss",          "zero_grad", "accumulate",
    "grad_sync",  "scale",          "scaler",   "unscale",       "norm",      "clip",
    "schedule",   "optimizer",      "masters",  "between_steps", "told_loss", "told_floor",
    "told_scale", "told_skips",     "told_row", "told_updates"};

bool is_of_model(std::string_view op) {
  return std::find(std::begin(kOrder), std::end(kOrder), op) == std::end(kOrder);
}

std::ptrdiff_t place_of(const Finding& finding) {
  const std::string_view op = finding.site.op;
  const std::string_view wanted = is_of_model(op) ? std::string_view() : op;
  return std::find(std::begin(kOrder), std::end(kOrder), wanted) - std::begin(kOrder);
}

// The situation, for the sentences.
std::string variant_of(const Departure& departure) {
  const std::string& op = departure.site.op;
  if (op == "grad_sync") return "mean";
  if (departure.code == "GRAD.SCALE") return "tokens";
  if (op == "accumulate" && departure.code == "NUMERIC.GRADIENT") return "mean";
  if (departure.code == "OPT.UPDATE_LOST") return "left_out";
  if (op == "schedule") return "applied";
  if (op == "zero_grad") return "kept";
  if (op.starts_with("told_")) return "reported";
  return is_of_model(op) ? "between" : op;
}

}  // namespace

Departure step_departure(std::string code,
                         const std::string& op,
                         int rank,
                         std::int64_t step,
                         const std::string& phase,
                         std::vector<std::string> params,
                         const oracles::Naming& naming) {
  Departure departure(std::move(code), "");
  departure.site = site_of_rank(rank);
  departure.site.step = step;
  departure.site.op = op;
  departure.site.phase = phase;
  departure.params = std::move(params);
  departure.laws = known_laws(naming);
  departure.by_law = false;
  return departure;
}

void StepFindings::add(Departure departure) {
  departure.variant = variant_of(departure);
  if (departure.site.op == "data") departure.facts["batches"] = 1;
  departures_.add(std::move(departure));
}

std::vector<Finding> StepFindings::findings() const {
  std::vector<Finding> all = departures_.findings();
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return place_of(a) < place_of(b);
  });
  return all;
}

}  // namespace harness::checks
