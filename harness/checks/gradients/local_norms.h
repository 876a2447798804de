// Of a training of the user's own: are the gradients of one rank, before they are reduced, always of another size than those of the
// others? Then the mean is theirs alone, or nearly so.
#pragma once

#include <optional>

#include "harness/checks/result.h"
#include "harness/evidence/evidence.h"

namespace harness::checks {

// GRAD.OUTLIER: in each step that was recorded one by one, eight at least, the norm of one rank's local gradients is ten times the
// median of the others' norms or more, or a tenth or less. Of two ranks none is named.
[[nodiscard]] std::optional<Finding> outlying_norm(const Evidence& evidence);

}  // namespace harness::checks
