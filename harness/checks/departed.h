// Recorded tensors that do not follow from the others, as a check hands them to the judge (judge/unused_facts.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/finding.h"
#include "nsa/base/safetensors.h"

namespace harness::checks {

// What a tensor's recorded inputs give.
struct Right {
  std::vector<double> values;
  double error = 0.0;  // how far the numbers that the training had may be from them
};

// REQUIRES: at least one part, all of one size.
[[nodiscard]] Right mean_of(const std::vector<std::vector<double>>& parts);

// The tensor of a file; `path` is relative to the case's folder. It can be put right where `right` has as many numbers as it.
[[nodiscard]] Departed departed_tensor(const std::string& path,
                                       const std::string& tensor,
                                       std::optional<Right> right = std::nullopt);

// What a rank reports of a step, where `right` follows from the rest of the record.
[[nodiscard]] Departed departed_sample(const std::string& metric,
                                       int rank,
                                       std::int64_t step,
                                       double right);

// The largest error of any tensor that stands in for one of this file; 0 where none does.
[[nodiscard]] double stand_in_error(const Evidence& evidence, const std::string& path);

}  // namespace harness::checks
