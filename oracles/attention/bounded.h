// Values with a bound on how far the same values, computed in another arithmetic, can be from them;
// from x to rotated queries and compressed keys. Internal to score_bound.
#pragma once

#include "oracles/attention/layer.h"
#include "oracles/attention/score_bound.h"
#include "oracles/tensor.h"

namespace oracles {

struct Bounded {
  Tensor value;
  Tensor error;  // >= |computed - value|, element by element
};

// gamma_n = n u / (1 - n u) bounds the relative error that n roundings accumulate (Higham, Accuracy
// and Stability of Numerical Algorithms, lemma 3.1). Where n u >= 1 nothing is known: a number so
// large that every bound made from it is useless, and finite, so that none becomes a NaN.
double gamma(double n, double u);

// Every unit roundoff 2^-53 larger. All bounds are convex in the unit roundoffs and vanish with
// them (until they are too large to be of use), so the bound for the judged arithmetic and the
// bound for the oracle's own add up to at most the bound for the sum of the roundoffs.
Arithmetic with_own_rounding(Arithmetic arithmetic);

// [B,G,h,R,D] rotated queries at `rows`, and [B,G,C,D] compressed keys.
Bounded bounded_queries(const Layer& layer,
                        const Tensor& x,
                        const std::vector<std::int64_t>& rows,
                        const Arithmetic& a);
Bounded bounded_compressed_keys(const Layer& layer, const Tensor& x, const Arithmetic& a);

}  // namespace oracles
