// What departures of a recorded attention layer have in common.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/attention/record/layer_record.h"
#include "harness/checks/departed.h"
#include "harness/checks/departures.h"

namespace harness::checks {

// The law that is reported if the chosen blocks of a query are not a valid list. A valid list is ascending, has each block once,
// and is filled up with -1.
inline constexpr const char* kNotALegalList = "not_a_legal_list";

struct LayerPlace {
  int rank = 0;
  std::int64_t step = 1;
  int layer = 0;
  auto operator<=>(const LayerPlace&) const = default;
};

// A tensor of a layer's file that does not follow from the others, and what does.
struct DepartedTensor {
  std::string tensor;
  std::optional<Right> right;
};

// Puts rows and groups into the place; counts are of (batch, group, row) triples, out of `in_all`.
void put_rows(const std::vector<BadRow>& rows, std::int64_t in_all, Departure& seen);

// The law of a sum over heads in which some heads count another time than once: `counts` by head. Its number is 1 and the most that
// a head counts more or less.
inline constexpr const char* kSharesOfHeads = "shares_of_heads";
void put_shares_of_heads(const std::map<int, double>& counts, Departure& seen);

// Of a gradient, not of a value of the forward.
[[nodiscard]] bool is_backward(const Departure& seen);

// The departure of a layer at its place. The variant follows from what was seen.
[[nodiscard]] Departure placed(Departure seen, const LayerPlace& at);

}  // namespace harness::checks
