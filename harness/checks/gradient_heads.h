// Which query heads a wrong gradient of keys or values comes from. The heads of a group share both, so their weights' gradients
// are sums over the group's heads; every head's share follows from the equations, and where shares that count more or less than
// once give what was recorded, they name the heads. Queries have rows of their own in W_Q.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/layer_record.h"

namespace harness::checks {

struct WrongHeads {
  std::vector<int> heads;  // ascending; where shares explain nothing, all those of the wrong groups
  std::vector<int> groups;
  std::map<int, double>
      counts;  // by head: how often its share counts, 1 being right; empty where nothing is explained
};

// `name` is that of a recorded gradient, "g.w.W_V_sel.weight"; `wanted` the oracle's; entries within `bound` are right.
// Nothing for weights that no head can be told from.
[[nodiscard]] std::optional<WrongHeads> heads_of_gradient(const LayerRecord& record,
                                                          const oracles::AttentionOptions& options,
                                                          const std::string& name,
                                                          const oracles::Tensor& wanted,
                                                          double bound);

}  // namespace harness::checks
