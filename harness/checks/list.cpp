#include "harness/checks/list.h"

namespace harness {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> kChecks = {
      checks::gradients_arrived(), checks::gradients_agree(),
      checks::matches_twin(),      checks::collectives_agree(),
      checks::parameters_agree(),  checks::data_distinct(),
      checks::close_to_oracle(),   checks::close_to_reference(),
      checks::selection_valid(),   checks::causal(),
      checks::unmutated(),         checks::memory_scaling(),
      checks::gate_alive(),        checks::step_is_oracle(),
      checks::optimizer_sound(),   checks::checkpoint_equal(),
      checks::loss_floor(),        checks::loss_falls(),
      checks::resume_equal(),      checks::within_budget(),
      checks::decode_equal(),      checks::reads_count(),
      checks::exercised(),         checks::finite(),
      checks::ran_route(),         checks::kernel_is_oracle(),
      checks::kernel_causal(),     checks::repeats_equal(),
      checks::process_clean(),     checks::progress(),
      checks::same_losses(),       checks::measured_as_asked(),
      checks::buckets_as_asked(),  checks::decisions_agree(),
      checks::levels_agree(),      checks::equals_joint_batch(),
      checks::machine_sound(),     checks::steps_agree(),
  };
  return kChecks;
}

}  // namespace harness
