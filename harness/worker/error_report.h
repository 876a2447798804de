// What ended a worker, in the words of the ledger: whose failure it was as far as the exception itself tells.
#pragma once

#include <string>

#include "harness/core/rows.h"

namespace harness {

// REQUIRES: called inside a catch block.
[[nodiscard]] WorkerError describe_current_exception(const std::string& phase, std::int64_t step);

}  // namespace harness
