#include "harness/diagnose/stages.h"

#include <algorithm>
#include <array>

namespace harness {
namespace {

using Changes = std::vector<Change>;

constexpr const char* kReference = "reference";  // as a route asks for it
constexpr const char* kByHand = "by_hand";

struct Stage {
  std::string_view seam;
  std::string_view branch;
};
constexpr std::array kStages = {Stage{"compress", "cmp"},
                                Stage{"score", "sel"},
                                Stage{"select", "sel"},
                                Stage{"attend_cmp", "cmp"},
                                Stage{"attend_sel", "sel"},
                                Stage{"attend_win", "win"}};
// Stages of the layer that nobody has written by hand.
constexpr std::array kOtherStages = {
    std::string_view("project"), std::string_view("rope"), std::string_view("gate")};

// What a stage can get wrong so that another one in its place shows it: numbers and choices. Of time and memory a slow
// implementation says nothing.
constexpr std::string_view kOfNumbers =
    "NUMERIC. MASK. SELECTION. CAUSALITY. RANGE. ALIAS. NAN. DETERMINISM. OVERFLOW. DECODE. READS. "
    "GRAD.MISSING GRAD.ZERO CKPT.SELECTION INPLACE. DESYNC.SELECTION";
constexpr std::string_view kOfReductions =
    "GRAD. COMM. NUMERIC.GRADIENT DESYNC. STATE. HANG.COLLECTIVE";
constexpr std::string_view kOfSums = "INFRA.COMM COMM. GRAD.SCALE NUMERIC.GRADIENT";

Change by_hand(const Scenario& scenario, std::string_view seam) {
  Change change{scenario, std::nullopt, "the code of " + std::string(seam)};
  change.without.route[std::string(seam)] = kByHand;
  return change;
}

bool asks_for_reference(const Scenario& scenario, std::string_view seam) {
  const auto asked = scenario.route.find(std::string(seam));
  return asked != scenario.route.end() && asked->second == kReference;
}

// In these kinds it is put over what stands in the seam (harness/kinds/by_hand.h), and nothing but the whole layer stands above it.
bool runs_in_parts(const Scenario& scenario) {
  const auto is_kind = [&](std::string_view kind) { return scenario.kind == kind; };
  if (!is_kind("training") && !is_kind("attention") && !is_kind("decode")) return false;
  return !scenario.route.contains("attention") || asks_for_reference(scenario, "attention");
}

// A finding that names another stage, or another branch, does not mean this one.
bool may_mean(const Cause& symptom, const Stage& stage) {
  const Site& site = symptom.site;
  const auto is_op = [&](std::string_view seam) { return site.op == seam; };
  const bool names_one = std::any_of(
      kStages.begin(), kStages.end(), [&](const Stage& one) { return is_op(one.seam); });
  if (names_one) return is_op(stage.seam);
  if (std::any_of(kOtherStages.begin(), kOtherStages.end(), is_op)) return false;
  return site.branch.empty() || site.branch == stage.branch;
}

Changes stages(const Scenario& scenario, const Cause& symptom) {
  Changes changes;
  if (!runs_in_parts(scenario)) return changes;
  for (const Stage& stage : kStages) {
    // Of another back end it is asked what the plain one does (experiments.cpp).
    if (!asks_for_reference(scenario, stage.seam) || !may_mean(symptom, stage)) continue;
    changes.push_back(by_hand(scenario, stage.seam));
  }
  return changes;
}

bool reduces(const Scenario& scenario) {
  return scenario.kind == "training" && scenario.parallel.ranks > 1;
}

Changes reduction(const Scenario& scenario, const Cause& /*symptom*/) {
  if (!reduces(scenario) || !asks_for_reference(scenario, "grad_sync")) return {};
  return {by_hand(scenario, "grad_sync")};
}

Changes sums(const Scenario& scenario, const Cause& /*symptom*/) {
  const bool on_cpu = scenario.parallel.device == nsa::Device::cpu;
  if (!reduces(scenario) || !on_cpu || scenario.route.contains("transport")) return {};
  Change change = by_hand(scenario, "transport");
  change.what = "the transport's own sums";
  return {change};
}

}  // namespace

std::vector<Experiment> experiments_on_stages() {
  constexpr double kSlower = 1.2;  // than the case itself
  constexpr const char* kStays = "written by hand, the stage fails alike";
  return {{"", "Which stage?", kStays, Takes::only_it, kSlower, "", kOfNumbers, &stages},
          {"",
           "Which stage?",
           kStays,
           Takes::only_it,
           kSlower,
           "COMM. GRAD.",
           kOfReductions,
           &reduction},
          {"",
           "Which stage?",
           "sums that every rank makes itself fail alike",
           Takes::only_it,
           kSlower,
           "INFRA.COMM",
           kOfSums,
           &sums}};
}

}  // namespace harness
