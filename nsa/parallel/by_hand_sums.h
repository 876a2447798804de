// Sums over the ranks without the back end's own: every rank gathers the others' numbers and adds them up itself, in the order of
// ranks. A diagnosis puts it between the process group and the back end, over whatever stands there.
#pragma once

#include "nsa/parallel/communicator.h"

namespace nsa {

// Of all-reduces on the CPU; everything else is passed on.
void sum_by_hand(CommunicatorOptions& options);

}  // namespace nsa
