// Wrong laws of the backward of one branch's attention that are known to happen: the forward is
// right, and so is every other step of the backward; and which of them give the gradients that were
// recorded. Legend as in attention.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/attention/backward.h"
#include "oracles/laws/match.h"
#include "oracles/naming.h"

namespace oracles {

struct BackwardLaw {
  Law law;
  std::vector<Branch> branches;  // that it makes sense for
  std::function<BranchGradients(const Backward&, Branch)> through;
  // It needs the lists of blocks of all queries.
  bool of_all_rows = false;
};

// All of them, in a fixed order, each name once.
std::span<const BackwardLaw> backward_laws();
const BackwardLaw* backward_law(std::string_view name);  // nullptr: none has this name

// One gradient that was recorded. Refers to its owner's tensors.
struct RecordedGradient {
  std::string of;  // a weight's name, or "x"; of a branch alone "q", "k" or "v"
  const Tensor& found;
  const Tensor& wanted;
  Allowed allowed;
};

struct GradientNaming {
  Naming naming;
  // The branch whose backward the laws are of; none where a pattern of the numbers fits.
  std::optional<Branch> branch;
};

// Right ones among them count: a law that would make them wrong does not hold everywhere. Where no
// law fits, the patterns of match.h are tried, one for all.
GradientNaming name_gradients(const Backward& backward, std::span<const RecordedGradient> recorded);

// The same of one branch's attention alone, whose gradients of queries, keys and values were recorded.
Naming name_gradients(const Backward& backward,
                      Branch branch,
                      std::span<const RecordedGradient> recorded);

// Which query heads a wrong gradient of queries, keys or values comes from. The heads of a group
// share keys and values, so that the gradients of their weights are sums over the group's heads.
// Every head's share follows from the equations, and where shares that count more or less than once
// give what was recorded, they name the heads. Queries have rows of their own in W_Q.
struct WrongHeads {
  std::vector<int> heads;  // ascending; where shares explain nothing, all those of the wrong groups
  std::vector<int> groups;
  std::map<int, double> counts;  // by head: how often its share counts, 1 being right; empty where
                                 // nothing is explained
};
// Nothing for weights that no head can be told from.
std::optional<WrongHeads> wrong_heads(const Backward& backward, const RecordedGradient& recorded);
// Of one branch's attention alone: `recorded` is the gradient of its queries, keys or values.
WrongHeads wrong_heads(const Backward& backward, Branch branch, const RecordedGradient& recorded);

}  // namespace oracles
