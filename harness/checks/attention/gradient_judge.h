// Judges the gradients of one recorded attention layer. Each is compared with the oracle's backward
// at the recorded forward, so that a wrong forward is not blamed on them. Where the forward of a
// stage that a gradient goes through is another function than the oracle's, the oracle does not
// know the gradient: it is not judged, and said so by name.
#pragma once

#include <set>

#include "harness/checks/attention/layer_judge.h"
#include "oracles/attention/stages.h"

namespace harness::checks {

// Adds to `verdict`. `forward` holds what was recorded; `wrong` are the stages whose forward is not
// the oracle's; `limit` is the relative error allowed. REQUIRES: the record has the gradient of the
// layer's output, all of it finite.
void judge_gradients(const LayerRecord& record,
                     const oracles::Stages& forward,
                     const std::set<oracles::Stage>& wrong,
                     double limit,
                     LayerJudgement& verdict);

}  // namespace harness::checks
