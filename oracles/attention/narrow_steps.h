// Steps that are due in float32, taken in the narrow type of the results instead: what a judged
// computation is compared with, beside the right one. Everything else is as the forward's own.
#pragma once

#include "oracles/attention/stages.h"

namespace oracles {

// A rotated stage (q or keys), with cosines, sines and their products rounded to the type.
Tensor with_narrow_rotation(const Stages& forward, Stage stage);

// What comes out of a branch, with logits and probabilities rounded to the type.
Tensor with_narrow_softmax(const Stages& forward, Branch branch);

}  // namespace oracles
