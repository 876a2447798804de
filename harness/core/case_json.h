// The identity of a case: the hash of what it says, on every machine the same.
#pragma once

#include <string>

#include "harness/core/case.h"

namespace harness {

// 16 hex digits over the canonical JSON of the scenario without `about`, its path, and paths of this machine.
[[nodiscard]] std::string case_id(const Case& the_case);

}  // namespace harness
