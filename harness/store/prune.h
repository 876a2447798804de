// Frees what a passing case has recorded in bulk. What is judged again afterwards is inconclusive where it needs that.
#pragma once

#include <cstdint>
#include <string>

#include "harness/core/evidence.h"

namespace harness {

// Removes the files of artefacts below the case's folder; events, logs and case.json stay. Gives the bytes that were freed.
// Paths come from workers: one that leads out of the folder is left alone.
std::int64_t prune_case(const Evidence& evidence);

}  // namespace harness
