// The identity of a case: the hash of what it says, on every machine the same; and that document itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/scenario/case.h"

namespace harness {

// 16 hex digits over the canonical JSON of the scenario without `about` and `claim`, its path, and paths of this machine.
[[nodiscard]] std::string case_id(const Case& the_case);

// The document of a scenario file with every default filled in. Without `life`, `bisect` and `known` where there are none, so
// that cases older than those keys keep their ids.
[[nodiscard]] nlohmann::json scenario_json(const Scenario& scenario);

}  // namespace harness
