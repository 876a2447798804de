// What is true of a case, from the float64 oracle's functions. The selected branch attends to the blocks it is given.
#pragma once

#include "tests/kernels/judge/case.h"

namespace judge {

// `blocks` of every sequence: those of the implementation under test. Query rows outside of Case::rows stay zero.
AllOutcomes truth(const Case& one, const CaseInputs& inputs, const AllOutcomes& tested);

}  // namespace judge
