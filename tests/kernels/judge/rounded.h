// The attention computed once more, independently, in float64 but with a rounding wherever the kernels state one
// (nsa/kernels/attention.h), and beside each value the size of what those roundings can do to it: the root of the sum of
// squares of the rounded terms that it is made of.
#pragma once

#include "tests/kernels/judge/case.h"

namespace judge {

struct Rounded {
  AllOutcomes value;
  AllOutcomes spread;
};

// `forced_apart`: as in the whole operation, where forced blocks are no parts; a branch alone makes all of them parts.
Rounded rounded_outcomes(const Case& one,
                         const CaseInputs& inputs,
                         const AllOutcomes& tested,
                         bool forced_apart);

}  // namespace judge
