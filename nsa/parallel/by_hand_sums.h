// Sums over the ranks without the back end's own: every rank gathers the others' numbers and adds them up itself, in the order of
// ranks. A diagnosis puts it between the process group and the back end, over whatever stands there.
#pragma once

#include "nsa/parallel/communicator.h"
#include "nsa/seams/routes.h"

namespace nsa {

// Of sums; everything else is passed on. Counts itself as transport "by_hand". `routes` outlives what is made of `options`. Throws:
// Refused on a card.
void sum_by_hand(CommunicatorOptions& options, Routes& routes);

}  // namespace nsa
