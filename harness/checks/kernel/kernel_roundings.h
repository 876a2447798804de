// Roundings before the softmax that many kernels have and that cost digits in narrow types, but are no mistake of another kind.
// One is named if the oracle that rounds there too is twice as near to what a kernel gave as the oracle in the type is.
#pragma once

#include <optional>
#include <string>

#include "harness/checks/departures.h"
#include "oracles/attention/stages.h"

namespace harness::checks {

inline constexpr const char* kScaledQuery = "scaled_query_rounded";
inline constexpr const char* kScores = "scores_rounded";

// One output of a branch. `factor` is that of the logits.
struct NarrowOutput {
  const oracles::Stages& plain;  // the oracle in the type
  oracles::Branch branch;
  double factor;
  const oracles::Tensor& found;
};

struct NamedRounding {
  KnownLaw law;
  oracles::Tensor output;  // of the oracle that rounds there too
};

[[nodiscard]] bool is_rounding(const std::string& law);
[[nodiscard]] std::optional<NamedRounding> rounding_of(const NarrowOutput& output);
// The oracle in the type is twice as near as every one that rounds as the law says.
[[nodiscard]] bool refutes_rounding(const std::string& law, const NarrowOutput& output);

}  // namespace harness::checks
