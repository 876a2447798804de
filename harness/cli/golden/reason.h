// Why the first stage that differs may differ: everything before it is right, so that a known wrong law which gives just what
// was found is the likely mistake.
#pragma once

#include <string>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/oracle.h"

namespace harness::cli::golden {

// In words, "" where nothing known explains it. `limit`: relative, of this stage.
[[nodiscard]] std::string likely_reason(const Case& the_case,
                                        const Wanted& oracle,
                                        const std::string& stage,
                                        double limit);

}  // namespace harness::cli::golden
