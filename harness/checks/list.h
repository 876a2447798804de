// The checks there are, in the order of their files. A new one is one file here: list_of_checks.cmake writes the list.
#pragma once

#include <vector>

#include "harness/judge/check.h"

namespace harness {

[[nodiscard]] const std::vector<Check>& all_checks();

}  // namespace harness
