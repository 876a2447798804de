#include "tests/checks/planted.h"

#include <array>

#include "harness/checks/list.h"
#include "tests/checks/planted_births.h"
#include "tests/checks/planted_checkpoints.h"
#include "tests/checks/planted_command.h"
#include "tests/checks/planted_data.h"
#include "tests/checks/planted_decisions.h"
#include "tests/checks/planted_decode.h"
#include "tests/checks/planted_documents.h"
#include "tests/checks/planted_ends.h"
#include "tests/checks/planted_flights.h"
#include "tests/checks/planted_gradients.h"
#include "tests/checks/planted_kernels.h"
#include "tests/checks/planted_layer_gradients.h"
#include "tests/checks/planted_layers.h"
#include "tests/checks/planted_left_out.h"
#include "tests/checks/planted_levels.h"
#include "tests/checks/planted_machine.h"
#include "tests/checks/planted_numbers.h"
#include "tests/checks/planted_oracle_steps.h"
#include "tests/checks/planted_progress.h"
#include "tests/checks/planted_ranks.h"
#include "tests/checks/planted_reductions.h"
#include "tests/checks/planted_repeats.h"
#include "tests/checks/planted_runs.h"
#include "tests/checks/planted_step_scope.h"
#include "tests/checks/planted_steps.h"
#include "tests/checks/planted_sweep.h"
#include "tests/checks/planted_updates.h"
#include "tests/checks/planted_zero_gradients.h"

namespace fixtures {

const std::vector<Planted>& all_planted() {
  static const std::vector<Planted> kAll = [] {
    std::vector<Planted> list;
    for (const auto add :
         {add_arrival,      add_zero_gradients,  add_agreement,      add_twin,
          add_joint,        add_collectives,     add_state,          add_data,
          add_oracle,       add_stages,          add_selection,      add_causal,
          add_unmutated,    add_reference,       add_decode,         add_reads,
          add_births,       add_gates,           add_optimizer,      add_exposure,
          add_sweep,        add_finite,          add_route,          add_reducer_options,
          add_kernels,      add_whole_layers,    add_automatic,      add_graphs,
          add_ends,         add_command,         add_flights,        add_progress,
          add_checkpoints,  add_loss_floor,      add_loss_falls,     add_memory,
          add_resume,       add_accumulation,    add_decoded_finite, add_sums,
          add_skips,        add_step_scope,      add_schedule,       add_layer_gradients,
          add_oracle_steps, add_foreign_kernels, add_bucket_sizes,   add_repeats,
          add_decisions,    add_documents,       add_left_out,       add_levels,
          add_machines}) {
      add(list);
    }
    for (Planted planted : planted_in_data()) {
      planted.name += ", as data";
      list.push_back(planted);
    }
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
