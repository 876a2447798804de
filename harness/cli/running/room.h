// Whether there is room on the disk for what a case may write, so that a full one is told before ranks stumble over it.
#pragma once

#include <cstdint>
#include <string>

#include "harness/scenario/scenario.h"

namespace harness::cli {

// Bytes that a case may write: its log and, where gradients are compared with the twin, what rank and twin record of them.
[[nodiscard]] std::int64_t room_wanted(const Scenario& scenario);

// "" where there is enough; else a line that names the folder, what it has and what is wanted.
[[nodiscard]] std::string too_little_room(const std::string& folder, const Scenario& scenario);

}  // namespace harness::cli
