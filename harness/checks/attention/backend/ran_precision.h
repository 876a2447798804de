// Was a narrow type that was asked for really computed in? More digits than that pass every bound on the error.
#pragma once

#include "harness/checks/result.h"

namespace harness::checks {

// Of the layers on record; tells what it finds in `result`.
void judge_precision(const Evidence& evidence, ResultBuilder& result);

}  // namespace harness::checks
