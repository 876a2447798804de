// What checkpointed layers computed again in one step, over all ranks and micro-batches, against what they had computed
// forward: by layer, and by what was not the same.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "harness/checks/result.h"

namespace harness::checks {

struct LayerAgain {  // where one layer's recomputation is not its forward
  std::set<int> ranks;
  std::set<std::string> dtypes;  // "BFloat16 forward, Float again"
  std::int64_t rows = 0;         // of the selection, looked at
  std::int64_t rows_differing = 0;
  std::set<int> queries;  // with other blocks
  bool other_dtype = false;
  bool other_blocks = false;
  bool other_output = false;  // with the same dtype and the same blocks
};

// Only layers that differ are in it. What was not recorded goes to `result`. REQUIRES: checkpoint_layers are not empty.
[[nodiscard]] std::map<int, LayerAgain> recomputed(const Evidence& evidence,
                                                   std::int64_t step,
                                                   ResultBuilder& result);

}  // namespace harness::checks
