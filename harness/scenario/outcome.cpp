#include "harness/scenario/outcome.h"

#include <algorithm>

namespace harness {

const char* name_of(Outcome value) {
  return kOutcomeNames.at(static_cast<std::size_t>(value));
}

std::optional<Outcome> outcome_from(std::string_view name) {
  const auto* at = std::find(kOutcomeNames.begin(), kOutcomeNames.end(), name);
  if (at == kOutcomeNames.end()) return std::nullopt;
  return static_cast<Outcome>(at - kOutcomeNames.begin());
}

}  // namespace harness
