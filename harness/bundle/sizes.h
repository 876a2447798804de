// The numbers that say how large a case is, and the case with one of them smaller. What is tied to a number goes with
// it: a layer that a scenario names and that is no longer there becomes the last one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/case.h"

namespace harness {

struct CaseSize {
  const char* name;  // as a scenario calls it: training.steps
  std::int64_t (*of)(const Scenario& scenario);
  void (*make)(Scenario& scenario,
               std::int64_t value);  // REQUIRES: lowest <= value <= of(scenario)
  std::int64_t lowest;
  bool is_count;  // of things that are alike: one of them is often enough
};

// In the order in which they are worth trying: what costs most first.
[[nodiscard]] std::span<const CaseSize> all_sizes();

using CaseSizes = std::vector<std::pair<std::string, std::int64_t>>;  // name, value

// Those of all_sizes() that the case heeds.
[[nodiscard]] CaseSizes sizes_of(const Scenario& scenario);

// "model.n_layers 12 -> 1, training.steps 4 -> 1"; "" where nothing differs.
[[nodiscard]] std::string size_changes(const CaseSizes& before, const CaseSizes& after);

}  // namespace harness
