// Does the Reducer run with the options that were asked for (parallel.ddp.static_graph, find_unused, gradient_as_bucket_view)? It
// reduces a map of the parameters that a backward used, integers among the gradients' numbers: with find_unused in every step, with
// a static graph in its first step alone, else never. Where gradients are views of buckets, those of a bucket lie in one memory.
// And were the parameters broadcast before the first step? Equal seeds hide where they were not. Its own collectives and gradients
// tell, whatever the configuration says.
#pragma once

#include "harness/checks/result.h"
#include "harness/evidence/evidence.h"

namespace harness::checks {

// Adds ROUTE.MISMATCH, or what is missing to tell. Steps that a rank may not have ended are not asked.
void judge_reducer_options(const Evidence& evidence, ResultBuilder& result);

}  // namespace harness::checks
