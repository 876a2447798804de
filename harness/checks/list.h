// The checks there are, in the order in which they are listed. A new one is one .cpp file here and one line in list.cpp.
#pragma once

#include <vector>

#include "harness/judge/check.h"

namespace harness {

[[nodiscard]] const std::vector<Check>& all_checks();

namespace checks {

// One a file of this folder.
[[nodiscard]] Check gradients_arrived();
[[nodiscard]] Check gradients_agree();
[[nodiscard]] Check matches_twin();
[[nodiscard]] Check equals_joint_batch();
[[nodiscard]] Check collectives_agree();
[[nodiscard]] Check buckets_as_asked();
[[nodiscard]] Check parameters_agree();
[[nodiscard]] Check data_distinct();
[[nodiscard]] Check close_to_oracle();
[[nodiscard]] Check close_to_reference();
[[nodiscard]] Check selection_valid();
[[nodiscard]] Check causal();
[[nodiscard]] Check unmutated();
[[nodiscard]] Check repeats_equal();
[[nodiscard]] Check decisions_agree();
[[nodiscard]] Check memory_scaling();
[[nodiscard]] Check measured_as_asked();
[[nodiscard]] Check same_losses();
[[nodiscard]] Check gate_alive();
[[nodiscard]] Check step_is_oracle();
[[nodiscard]] Check optimizer_sound();
[[nodiscard]] Check checkpoint_equal();
[[nodiscard]] Check loss_floor();
[[nodiscard]] Check loss_falls();
[[nodiscard]] Check resume_equal();
[[nodiscard]] Check within_budget();
[[nodiscard]] Check decode_equal();
[[nodiscard]] Check reads_count();
[[nodiscard]] Check exercised();
[[nodiscard]] Check finite();
[[nodiscard]] Check ran_route();
[[nodiscard]] Check kernel_is_oracle();
[[nodiscard]] Check kernel_causal();
[[nodiscard]] Check process_clean();
[[nodiscard]] Check progress();
[[nodiscard]] Check levels_agree();
[[nodiscard]] Check machine_sound();
[[nodiscard]] Check steps_agree();

}  // namespace checks
}  // namespace harness
