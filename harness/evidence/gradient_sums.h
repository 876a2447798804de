// Which collectives sum gradients over ranks.
#pragma once

#include "harness/evidence/rows.h"

namespace harness {

// Gradients are summed in the backward or, the first time with a static graph, right after it; maps of unused parameters are
// summed too, but of integers.
[[nodiscard]] inline bool sums_gradients(const Collective& row) {
  const bool when = row.phase == "backward" || row.phase == "record";
  const bool floating =
      row.dtype.find("Float") != std::string::npos || row.dtype == "Double" || row.dtype == "Half";
  return row.op == "allreduce" && when && floating;
}

// Sums those of sharded parameters: each rank gets its piece.
[[nodiscard]] inline bool scatters_gradients(const Collective& row) {
  return row.op == "reduce_scatter";
}

}  // namespace harness
