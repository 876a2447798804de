// The first law that a configuration breaks, with the key it is about: validate() throws it at one place, the reader at the
// line of that very key.
#pragma once

#include <optional>

#include "nsa/base/config.h"
#include "nsa/base/fields.h"

namespace nsa {

[[nodiscard]] std::optional<Violation> violation_of(const ModelConfig& config);
[[nodiscard]] std::optional<Violation> violation_of(const TrainingConfig& config);
[[nodiscard]] std::optional<Violation> violation_of(const ParallelConfig& config);

}  // namespace nsa
