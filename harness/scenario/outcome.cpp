#include "harness/scenario/outcome.h"

#include <algorithm>
#include <array>

namespace harness {
namespace {

constexpr std::array<const char*, 11> kOutcomes = {"PASS",
                                                   "FAIL",
                                                   "HANG",
                                                   "SLOW",
                                                   "CRASH",
                                                   "OOM",
                                                   "SKIP",
                                                   "ERROR",
                                                   "INCONCLUSIVE",
                                                   "XFAIL",
                                                   "XPASS"};

}  // namespace

const char* name_of(Outcome value) {
  return kOutcomes.at(static_cast<std::size_t>(value));
}

std::optional<Outcome> outcome_from(std::string_view name) {
  const auto* at = std::find(kOutcomes.begin(), kOutcomes.end(), name);
  if (at == kOutcomes.end()) return std::nullopt;
  return static_cast<Outcome>(at - kOutcomes.begin());
}

}  // namespace harness
