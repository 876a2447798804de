// The identity of a case: the hash of what it says, on every machine the same; and that document itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/scenario/case.h"

namespace harness {

// 16 hex digits over the canonical JSON of the scenario without `about` and `claim`, its path, and paths of this machine.
[[nodiscard]] std::string case_id(const Case& the_case);

// What is stored of a command: its words without what looks like a secret, or the program alone.
[[nodiscard]] std::vector<std::string> kept_words(const CommandConfig& command);

// The document of a scenario file with every default filled in. Without `life`, `bisect` and `known` where there are none, so
// that cases older than those keys keep their ids.
[[nodiscard]] nlohmann::json scenario_json(const Scenario& scenario);

}  // namespace harness
