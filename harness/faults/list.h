// Every fault this worker can plant. A new fault is a row at the end of a file here; a new file is named in list.cpp.
#pragma once

#include <vector>

#include "harness/worker/fault.h"

namespace harness {

[[nodiscard]] const std::vector<Fault>& all_faults();

// Throws: nsa::Error naming what is known.
[[nodiscard]] const Fault& fault_named(const std::string& name);

}  // namespace harness
