// The parts of machine_sound, a file each: what the machine does to a case that neither the model nor its training can help. Each
// says what it found and what evidence it lacks, and returns what it saw, for the reason of a pass; "" where it had nothing to see.
#pragma once

#include <string>

#include "harness/checks/result.h"

namespace harness::checks {

// Sums over the ranks that are known beforehand: INFRA.COMM_CORRUPT.
std::string judge_known_sums(const Evidence& evidence, ResultBuilder& result);
// Looks at the card while times are taken: INFRA.GPU_BUSY.
std::string judge_card_looks(const Evidence& evidence, ResultBuilder& result);
// The sources that every process was built from: INFRA.STALE_BUILD.
std::string judge_builds(const Evidence& evidence, ResultBuilder& result);

}  // namespace harness::checks
