// What ended a worker, in the words of the ledger: whose failure it was as far as the exception itself tells.
#pragma once

#include <optional>
#include <string>

#include "harness/core/rows.h"

namespace harness {

// Both REQUIRE: called inside a catch block.
// An implementation that refused what it was asked for; nothing when it is another exception.
[[nodiscard]] std::optional<Refusal> refusal_in_current_exception();
[[nodiscard]] WorkerError describe_current_exception(const std::string& phase, std::int64_t step);

}  // namespace harness
