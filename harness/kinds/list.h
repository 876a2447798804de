// Every kind this worker can run. A new kind is one .cpp here and a line in list.cpp.
#pragma once

#include <vector>

#include "harness/worker/kind.h"

namespace harness {

[[nodiscard]] const std::vector<Kind>& all_kinds();

}  // namespace harness
