#include "harness/diagnose/stages.h"

#include <algorithm>
#include <utility>

#include "oracles/attention/stage_table.h"

namespace harness {
namespace {

using Changes = std::vector<Change>;

constexpr const char* kReference = "reference";  // as a route asks for it
constexpr const char* kByHand = "by_hand";

// Stages that a by-hand implementation may stand in for.
bool is_by_hand(const oracles::StageRow& stage) {
  return stage.rows == oracles::RowsOf::compressed || is_of_choice(stage) ||
         stage.op.starts_with("attend_");
}

// Of the choice, the branch that it is made for.
std::string_view branch_of(const oracles::StageRow& stage) {
  return is_of_choice(stage) ? "sel" : stage.branch;
}

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
bool may_mean(const Cause& symptom, const oracles::StageRow& stage) {
  const Site& site = symptom.site;
  const bool names_a_stage = oracles::is_stage_op(site.op) && site.op != "attention";
  if (names_a_stage) return site.op == stage.op;
  return site.branch.empty() || site.branch == branch_of(stage);
}

Changes stages(const Scenario& scenario, const Cause& symptom) {
  Changes changes;
  if (!runs_in_parts(scenario)) return changes;
  std::string_view last;  // keys and values have one seam
  for (const oracles::StageRow& stage : oracles::kStageTable) {
    if (!is_by_hand(stage) || stage.op == std::exchange(last, stage.op)) continue;
    // Of another back end it is asked what the plain one does (experiments.cpp).
    if (!asks_for_reference(scenario, stage.op) || !may_mean(symptom, stage)) continue;
    changes.push_back(by_hand(scenario, stage.op));
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
