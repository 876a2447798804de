// Rows of a linear map with a bound for every number, from rows that may have a bound themselves.
#pragma once

#include "oracles/expected.h"
#include "oracles/rounding.h"

namespace oracles {

// x [R,K] times the transpose of weight [N,K], or times weight [K,N] itself where `transposed`: [R,N].
// An empty bound of x means that x is recorded and exact. Otherwise x_k is off by at most b_k, and
// for reasons that are independent of each other (each was rounded by itself): the result is off by
// 8/sqrt(3) sqrt(sum (W b)^2), eight standard deviations, since a number within +-b has one of at most
// b / sqrt(3) where all places between are alike. To that
//   sum_roundoff(K) summed sum|x W| + stored|y| + f.
// Throws std::invalid_argument where shapes do not fit.
Expected expected_linear(const Expected& x_RK,
                         const Matrix& weight,
                         bool transposed,
                         const Rounding& rounding,
                         int threads);

}  // namespace oracles
