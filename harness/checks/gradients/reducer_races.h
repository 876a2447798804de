// Does a reduced gradient depend on which stream of a card comes first? The last step's backward was done again with late streams
// and in series (harness/kinds/reduced_again.h).
#pragma once

#include "harness/checks/result.h"

namespace harness::checks {

// What repeats_equal says of a training case.
[[nodiscard]] CheckResult judge_reducer_races(const Evidence& evidence);

}  // namespace harness::checks
