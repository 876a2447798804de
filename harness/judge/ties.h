// What can tie two findings together. Evidence ties them: the same tensor or one made of it, the same parameter, the same
// collective, the same step and rank. That one code comes before another in the table ties nothing.
#pragma once

#include <string_view>

#include "harness/judge/finding.h"

namespace harness {

enum class Tie {
  same_seam,     // one layer, one seam (and one law, where both name one)
  same_tensor,   // one layer, one tensor
  same_tensors,  // the same, and the cause is in every layer of the effect
  same_path,     // one layer, and one of the tensors is made of the other
  downstream,    // a tensor made of the other one: a later layer, or a later operation of the layer
  same_layer,    // one layer
  gradient_path,  // a gradient that the backward makes after passing the other place
  same_param,     // one parameter, not earlier
  same_rank,      // one rank, not earlier
  same_law,       // one rank, step and set of layers, and one law, with the same numbers
  other_weight,   // one layer, and the law of the cause takes what belongs to the effect's branch
  in_batches,     // one tensor, and the effect is wrong in batches of several sequences alone
  same_fact,  // the same, where both say in other words what was seen once: a law of the effect explains nothing of its own
  one_side,   // the cause is on those ranks alone that differ from the others, not earlier
  each_its_own,        // a number that all ranks should share and each has for itself, not earlier
  later_step,          // one rank, in a later step
  in_its_steps,        // one rank, first seen in a step of the cause
  in_its_steps_alone,  // one rank, seen in no step that is none of the cause
  same_step,           // one step, whichever rank
  read_back,  // one rank, and what is told of the step after which it was resumed, and of no other
  peer,       // another rank that talks with this one: at most one step apart
  same_sequence,  // one collective operation, or one after it in the step
  whole_run       // what the run as a whole shows
};

// Do the sites show this tie from `cause` to `effect`? A site without ranks speaks of all ranks, one without layers of the
// whole model, and one without a step of the whole run.
[[nodiscard]] bool ties(Tie tie, const Finding& cause, const Finding& effect);

[[nodiscard]] const char* text_of(Tie tie);  // "same rank, not in an earlier step"

}  // namespace harness
