// Which stored run the user means.
#pragma once

#include <optional>
#include <string>

#include "harness/store/store.h"

namespace harness::cli {

// "last", a run's name, or its number. Nothing, said on stderr, when no run is stored yet. Throws: nsa::Error when there are
// runs, but none of this name.
[[nodiscard]] std::optional<RunRecord> find_run(const Store& store, const std::string& words);

}  // namespace harness::cli
