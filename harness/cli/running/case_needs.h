// Whether this machine has what a case needs; asked before anything runs.
#pragma once

#include <string>

#include "harness/cli/machine/machine.h"
#include "harness/scenario/manifest.h"
#include "harness/scenario/scenario.h"

namespace harness::cli {

// Why the case cannot run here ("needs 2 GPUs, this machine has 0"), "" if it can.
[[nodiscard]] std::string missing_requirement(const Scenario& scenario,
                                              const Machine& machine,
                                              const Manifest& manifest);

// Why this build cannot use the machine's cards at all ("needs driver 580 or newer for CUDA 13.0, this machine has
// 550.54"), "" where it can, or where there are none.
[[nodiscard]] std::string cards_unusable(const Machine& machine, const Manifest& manifest);

}  // namespace harness::cli
