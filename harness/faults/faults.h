// The faults' own declarations, one function a file: gives the fault's name, parameters and installer.
#pragma once

#include "harness/worker/fault.h"

namespace harness {

[[nodiscard]] Fault averaged_twice();
[[nodiscard]] Fault first_key();
[[nodiscard]] Fault kcmp_detached();
[[nodiscard]] Fault rank_graph();
[[nodiscard]] Fault rank_killed();
[[nodiscard]] Fault rank_stopped();
[[nodiscard]] Fault same_data();

}  // namespace harness
