// What a worker could do, and what a machine could have: enough to read every shipped scenario without a worker.
#pragma once

#include "harness/core/scenario.h"

namespace fakes {

inline harness::Manifest manifest() {
  harness::Manifest manifest;
  manifest.source_hash = "0123";
  manifest.torch_version = "2.11.0";
  manifest.kinds = {"training"};
  for (const char* seam :
       {"rope", "compress", "score", "select", "attend_cmp", "attend_win", "gate"}) {
    manifest.seams[seam] = {"reference"};
  }
  manifest.seams["attend_sel"] = {"reference", "masked"};
  const std::vector<std::string> phases = {"forward", "backward", "optimizer"};
  manifest.faults = {
      {"averaged_twice", "", {"rank", "step", "strength"}, {}},
      {"first_key", "", {"layers", "rank", "step", "strength", "form"}, {"all_rows", "last_block"}},
      {"kcmp_detached", "", {"layers", "rank", "step", "strength"}, {}},
      {"rank_graph", "", {"layers", "rank", "step", "form"}, {"cmp", "sel", "win"}},
      {"rank_killed", "", {"rank", "step", "form"}, phases},
      {"rank_stopped", "", {"rank", "step", "form"}, phases},
      {"same_data", "", {"rank", "step", "strength"}, {}},
  };
  return manifest;
}

// `root` is the repository's.
inline harness::ScenarioOptions scenario_options(const std::string& root) {
  harness::ScenarioOptions options;
  options.configs_folder = root + "/configs";
  options.default_text = root;
  options.known_checks = {"gradients_arrived",
                          "gradients_agree",
                          "matches_twin",
                          "collectives_agree",
                          "parameters_agree",
                          "data_distinct",
                          "close_to_oracle",
                          "exercised",
                          "finite",
                          "ran_route",
                          "process_clean",
                          "progress"};
  return options;
}

}  // namespace fakes
