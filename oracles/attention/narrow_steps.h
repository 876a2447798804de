// Steps that are due in float32, taken in the narrow type of the results instead, and angles that are
// due in float64: what a judged computation is compared with, beside the right one. Everything else
// is as the forward's own.
#pragma once

#include "oracles/attention/stages.h"

namespace oracles {

// What of a rotation is rounded to the type: the table of cosines and sines, or the products with them as well.
enum class NarrowRotation { table, products };

// A rotated stage (q or keys).
Tensor with_narrow_rotation(const Stages& forward, Stage stage, NarrowRotation how);

// Angles that are due in float64: their frequencies in float32, or their products with the positions as well.
enum class FloatAngles { frequencies, products };

// What such angles make of a rotated stage that is `right`.
Tensor with_float_angles(const Stages& forward, Stage stage, FloatAngles how, Tensor right);

// What comes out of a branch, with logits and probabilities rounded to the type.
Tensor with_narrow_softmax(const Stages& forward, Branch branch);

// What an implementation rounds to the type before the softmax: the queries times the factor of the logits, without or with the
// factor log2 e of a power of two; or the scores, before the factor, after it, or both.
enum class ScoreRounding { scaled_query, scaled_query_log2, scores, scaled_scores, scores_twice };

// What comes out of a branch then. `factor` is that of the logits: scores are logits without it.
Tensor with_score_rounding(const Stages& forward, Branch branch, ScoreRounding how, double factor);
// The queries [B,G,h,R,D] that stand for those which are rounded once they have the factor.
Tensor with_rounded_queries(const Stages& forward, ScoreRounding how);

}  // namespace oracles
