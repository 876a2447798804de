// What a worker could do, and what a machine could have: enough to read every shipped scenario without a worker.
#pragma once

#include "harness/scenario/scenario.h"
#include "tests/fakes/where.h"

namespace fakes {

// As the built worker writes it (tests/program holds the two equal): nsa-harness-worker --manifest > tests/fakes/manifest.json.
inline harness::Manifest worker_manifest() {
  harness::Manifest manifest = harness::load_manifest(fakes::tree() + "/tests/fakes/manifest.json");
  manifest.source_hash = "0123";
  return manifest;
}

// With a kind that the controller runs itself.
inline harness::Manifest manifest() {
  harness::Manifest manifest = worker_manifest();
  manifest.kinds.emplace_back(harness::kCommandKind);
  return manifest;
}

// `root` is the repository's.
inline harness::ScenarioOptions scenario_options(const std::string& root) {
  harness::ScenarioOptions options;
  options.configs_folder = root + "/configs";
  options.default_text = root;
  options.known_checks = {"gradients_arrived", "gradients_agree",
                          "matches_twin",      "collectives_agree",
                          "parameters_agree",  "data_distinct",
                          "close_to_oracle",   "close_to_reference",
                          "selection_valid",   "causal",
                          "unmutated",         "gate_alive",
                          "optimizer_sound",   "decode_equal",
                          "reads_count",       "memory_scaling",
                          "exercised",         "finite",
                          "ran_route",         "process_clean",
                          "progress",          "checkpoint_equal",
                          "loss_floor",        "loss_falls",
                          "resume_equal",      "within_budget",
                          "step_is_oracle",    "same_losses",
                          "measured_as_asked", "buckets_as_asked",
                          "repeats_equal",     "decisions_agree",
                          "levels_agree",      "equals_joint_batch",
                          "machine_sound"};
  return options;
}

}  // namespace fakes
