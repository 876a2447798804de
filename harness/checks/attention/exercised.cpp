// Could the case have failed? A selection that drops nothing, a window that cuts nothing and a compressed branch that sees
// nothing cannot be wrong, so a case without them proves nothing about them.
#include "harness/checks/list.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct Claim {
  const char* branch;
  const char* what;
  std::int64_t Exposure::*rows;
};

constexpr Claim kClaims[] = {
    {"cmp", "no row saw a compressed token", &Exposure::rows_compressed},
    {"sel", "no row dropped a block (S <= n_sel * l_sel?)", &Exposure::rows_dropped},
    {"win", "no row lost a key to the window (S <= w?)", &Exposure::rows_cut},
};

struct Totals {
  std::int64_t rows = 0;
  std::map<std::string, std::int64_t> of_branch;
};

std::string layers_text(const std::vector<int>& layers, std::int64_t all) {
  if (static_cast<std::int64_t>(layers.size()) == all) return "any layer";
  return "layer " + nsa::ranges_text(layers);
}

CheckResult judge_exposure(const Evidence& evidence) {
  std::map<int, Totals> of_layer;
  for (const auto& row : evidence.exposures) {
    if (row.process < 0) continue;
    Totals& totals = of_layer[row.row.layer];
    totals.rows += row.row.rows;
    for (const Claim& claim : kClaims) totals.of_branch[claim.branch] += row.row.*claim.rows;
  }
  if (of_layer.empty()) return inconclusive("no exposure row was recorded");
  const std::int64_t layers = evidence.the_case.scenario.model.n_layers;
  ResultBuilder result;
  std::vector<int> silent;
  for (int layer = 0; layer < layers; ++layer) {
    if (of_layer.count(layer) == 0) silent.push_back(layer);
  }
  if (!silent.empty()) result.missing("exposure rows of " + layers_text(silent, layers));
  // A one-hot gate lets through one branch alone, and claims nothing about the others.
  const Scenario& scenario = evidence.the_case.scenario;
  const std::string only = scenario.kind == "attention" ? scenario.attention.gate : "learned";
  const bool one_hot = only == "cmp" || only == "sel" || only == "win";
  for (const Claim& claim : kClaims) {
    if (one_hot && only != claim.branch) continue;
    std::vector<int> idle;
    double least = 1.0;
    for (auto& [layer, totals] : of_layer) {
      const std::int64_t hit = totals.of_branch[claim.branch];
      if (hit <= 0) idle.push_back(layer);
      if (totals.rows > 0) {
        least = std::min(least, static_cast<double>(hit) / static_cast<double>(totals.rows));
      }
    }
    result.measured(std::string("least_share_of_rows_") + claim.branch, least);
    if (!idle.empty()) {
      result.missing("branch " + std::string(claim.branch) + " was not exercised in " +
                     layers_text(idle, layers) + ": " + claim.what);
    }
  }
  return result.finish(
      one_hot ? "in every layer branch " + only + " was exercised"
              : "in every layer rows dropped blocks, lost window keys and saw compressed tokens");
}

}  // namespace

Check exercised() {
  return {"exercised",
          "selection dropped, window cut and compression was seen in every layer, so that the case "
          "could have failed",
          {},
          &judge_exposure};
}

}  // namespace harness::checks
