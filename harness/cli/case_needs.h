// Whether this machine has what a case needs; asked before anything runs.
#pragma once

#include <string>

#include "harness/cli/machine.h"
#include "harness/scenario/manifest.h"
#include "harness/scenario/scenario.h"

namespace harness::cli {

// Why the case cannot run here ("needs 2 GPUs, this machine has 0"), "" if it can.
[[nodiscard]] std::string missing_requirement(const Scenario& scenario,
                                              const Machine& machine,
                                              const Manifest& manifest);

}  // namespace harness::cli
