#include "harness/checks/step/step_told.h"

#include <algorithm>
#include <set>

#include "harness/checks/parameter_names.h"
#include "harness/judge/patterns.h"
#include "nsa/base/text.h"

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

// The situation, for the wording.
std::string variant_of(const Departure& departure) {
  if (departure.op == "grad_sync") return "mean";
  if (departure.code == "GRAD.SCALE") return "tokens";
  if (departure.op == "accumulate" && departure.code == "NUMERIC.GRADIENT") return "mean";
  if (departure.code == "OPT.UPDATE_LOST") return "left_out";
  if (departure.op == "schedule") return "applied";
  if (departure.op == "zero_grad") return "kept";
  if (departure.op.starts_with("told_")) return "reported";
  return is_of_model(departure.op) ? "between" : departure.op;
}

// The laws that fit every departure.
std::vector<oracles::LawFit> common_laws(const std::vector<Departure>& departures) {
  std::vector<oracles::LawFit> common = departures.front().naming.fitting;
  for (const Departure& departure : departures) {
    const auto& fits = departure.naming.fitting;
    std::erase_if(common, [&](const oracles::LawFit& law) {
      return std::none_of(fits.begin(), fits.end(), [&](const oracles::LawFit& other) {
        return other.law.name == law.law.name;
      });
    });
  }
  return common;
}

// Of all departures of a step; empty where one of them is about all parameters.
std::vector<std::string> params_of(const std::vector<Departure>& departures, std::int64_t step) {
  std::set<std::string> params;
  for (const Departure& departure : departures) {
    if (departure.step != step) continue;
    if (departure.params.empty()) return {};
    params.insert(departure.params.begin(), departure.params.end());
  }
  return {params.begin(), params.end()};
}

// Do the sentences name parameters?
bool names_params(std::string_view op) {
  return op == "initial_values" || op == "accumulate" || op == "grad_sync" || op == "optimizer" ||
         op == "between_steps" || op == "told_updates";
}

// Does each rank have a number of its own where all should have one?
bool differs_by_rank(const std::vector<Departure>& departures, std::int64_t step) {
  std::map<int, nlohmann::json> found;
  for (const Departure& departure : departures) {
    if (departure.step != step) continue;
    if (departure.detail.contains("found")) found[departure.rank] = departure.detail.at("found");
  }
  return found.size() > 1 && !all_equal(found);
}

void put_laws(Finding& finding, const std::vector<oracles::LawFit>& laws) {
  if (laws.size() == 1) {
    const oracles::LawFit& law = laws.front();
    put_law(std::string(law.law.name), law.law.fitted, finding.site);
    finding.facts["known"] =
        std::string(law.law.about) + (law.detail.empty() ? "" : " (" + law.detail + ")");
    return;
  }
  std::vector<std::string> names;
  for (const oracles::LawFit& law : laws) names.emplace_back(law.law.name);
  if (!names.empty()) finding.site.detail["laws"] = names;
}

Finding finding_of(const std::vector<Departure>& departures) {
  const auto earlier = [](const Departure& a, const Departure& b) { return a.step < b.step; };
  const Departure& first = *std::min_element(departures.begin(), departures.end(), earlier);
  std::set<int> ranks;
  std::set<int> steps;
  std::set<int> layers;
  for (const Departure& departure : departures) {
    if (departure.step == first.step && departure.layer >= 0) layers.insert(departure.layer);
    ranks.insert(departure.rank);
    steps.insert(static_cast<int>(departure.step));
  }
  const std::vector<oracles::LawFit> laws = common_laws(departures);
  const std::vector<std::string> params = params_of(departures, first.step);
  Finding finding = make_finding(first.code, variant_of(first));
  if (!params.empty()) {
    finding.site = site_of_params(params);
    if (names_params(first.op)) {
      finding.facts["count"] = params.size();
      put_some(finding, "params", params);
    }
  }
  if (!layers.empty()) finding.site.layers = to_ints(layers);
  finding.site.ranks = to_ints(ranks);
  finding.site.step = first.step;
  finding.site.op = first.op;
  finding.site.phase = first.phase;
  for (const auto& [key, value] : first.detail.items()) finding.site.detail[key] = value;
  if (differs_by_rank(departures, first.step)) finding.site.detail["differs_by_rank"] = true;
  if (steps.size() > 1) finding.site.detail["steps"] = to_ints(steps);
  put_laws(finding, laws);
  if (first.op == "data") finding.facts["batches"] = departures.size();
  return finding;
}

}  // namespace

void StepFindings::add(Departure departure) {
  const auto& fits = departure.naming.fitting;
  const std::string law = departure.by_law && !fits.empty() ? std::string(fits[0].law.name) : "";
  Group& group = groups_[{departure.code, departure.op, law}];
  group.departures.push_back(std::move(departure));
}

std::vector<Finding> StepFindings::findings() const {
  std::vector<Finding> all;
  for (const std::string_view op : kOrder) {
    for (const auto& [key, group] : groups_) {
      const bool here = op.empty() ? is_of_model(key[1]) : key[1] == op;
      if (here) all.push_back(finding_of(group.departures));
    }
  }
  return all;
}

}  // namespace harness::checks
