// Seam grad_sync a second time: every step ends in one reduction, in its last micro-batch, and each bucket is divided by world and
// added up over the ranks. A diagnosis puts it over whatever stands in the seam.
#pragma once

#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"

namespace nsa {

// `communicator` and `routes` outlive `options`. Counts itself as grad_sync "by_hand".
void reduce_by_hand(DataParallelOptions& options, Communicator& communicator, Routes& routes);

}  // namespace nsa
