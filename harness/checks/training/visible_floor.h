// The least loss that a model can reach when it does not see all that its source draws on.
#pragma once

#include <optional>

#include "harness/scenario/scenario.h"

namespace harness::checks {

// In nats a token. A token of the long-range source repeats the one `distance` back; a model whose branches reach less far (the
// window alone, n_layers*(w-1) back) sees tokens that tell nothing of the next one: ln(vocab_size). Nothing where the floor is
// the source's own.
[[nodiscard]] std::optional<double> visible_floor(const Scenario& scenario);

}  // namespace harness::checks
