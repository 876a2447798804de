#include "tests/checks/planted.h"

#include <array>

#include "harness/checks/list.h"
#include "tests/checks/planted_births.h"
#include "tests/checks/planted_data.h"
#include "tests/checks/planted_decode.h"
#include "tests/checks/planted_documents.h"
#include "tests/checks/planted_gradients.h"
#include "tests/checks/planted_kernels.h"
#include "tests/checks/planted_layer_gradients.h"
#include "tests/checks/planted_layers.h"
#include "tests/checks/planted_machine.h"
#include "tests/checks/planted_numbers.h"
#include "tests/checks/planted_oracle_steps.h"
#include "tests/checks/planted_reductions.h"
#include "tests/checks/planted_repeats.h"
#include "tests/checks/planted_runs.h"

namespace fixtures {

const std::vector<Planted>& all_planted() {
  static const std::vector<Planted> kAll = [] {
    std::vector<Planted> list;
    for (const auto add : {add_twin,
                           add_joint,
                           add_oracle,
                           add_stages,
                           add_selection,
                           add_causal,
                           add_reference,
                           add_decode,
                           add_reads,
                           add_births,
                           add_finite,
                           add_loss_floor,
                           add_loss_falls,
                           add_memory,
                           add_decoded_finite,
                           add_sums,
                           add_layer_gradients,
                           add_oracle_steps,
                           add_foreign_kernels,
                           add_repeats,
                           add_documents,
                           add_machines}) {
      add(list);
    }
    for (const Planted& planted : planted_in_data()) list.push_back(planted);
    return list;
  }();
  return kAll;
}

bool asks_the_oracle(const std::string& check) {
  constexpr std::array kAsking = {"close_to_oracle",
                                  "close_to_reference",
                                  "kernel_is_oracle",
                                  "selection_valid",
                                  "step_is_oracle"};
  return std::find(kAsking.begin(), kAsking.end(), check) != kAsking.end();
}

const std::vector<Said>& all_said() {
  static const std::vector<Said> kAll = [] {
    std::vector<Said> said;
    for (const Planted& planted : all_planted()) {
      Healthy healthy(planted.ranks, planted.steps, planted.kind);
      planted.spoil(healthy);
      for (const harness::Check& check : harness::all_checks()) {
        if (asks_the_oracle(check.name) && planted.check != check.name) continue;
        said.push_back({planted, check.name, run(check.name, healthy.evidence)});
      }
    }
    return said;
  }();
  return kAll;
}

}  // namespace fixtures
