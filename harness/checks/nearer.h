// Which of two computations of one tensor is the one that was recorded? Both are off by the same roundings but for one step, so
// that number by number the right one is met and the other is not. Large numbers weigh most in a distance; each counts once in
// the vote.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "oracles/tensor.h"

namespace harness::checks {

inline constexpr double kNearer = 2.0;  // so many times as near: no chance, and no tie

struct Nearer {
  double from_plain = 0.0;  // root mean square over the numbers in which the two differ
  double from_other = 0.0;
  std::int64_t count = 0;  // of those numbers
  std::int64_t votes = 0;  // of them nearer to the other, less those nearer to the plain one
  std::vector<std::size_t> vectors;  // that are not the plain one's; ascending

  // A few numbers say nothing; nor does a vote that chance alone gives: four deviations.
  [[nodiscard]] bool is_nearer() const {
    constexpr std::int64_t kFewest = 16;
    constexpr double kDeviations = 4.0;
    return count >= kFewest && from_plain > kNearer * from_other &&
           static_cast<double>(votes) >= kDeviations * std::sqrt(static_cast<double>(count));
  }
};

inline Nearer nearer_to(const oracles::Tensor& other,
                        const oracles::Tensor& found,
                        const oracles::Tensor& plain) {
  Nearer seen;
  double of_plain = 0.0;
  double of_other = 0.0;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    if (other.data[i] == plain.data[i]) continue;
    ++seen.count;
    const double from_plain = std::abs(found.data[i] - plain.data[i]);
    const double from_other = std::abs(found.data[i] - other.data[i]);
    of_plain += from_plain * from_plain;
    of_other += from_other * from_other;
    seen.votes +=
        static_cast<int>(from_other < from_plain) - static_cast<int>(from_plain < from_other);
    if (found.data[i] == plain.data[i]) continue;
    const std::size_t vector = i / static_cast<std::size_t>(found.shape.back());
    if (seen.vectors.empty() || seen.vectors.back() != vector) seen.vectors.push_back(vector);
  }
  if (seen.count == 0) return seen;
  seen.from_plain = std::sqrt(of_plain / static_cast<double>(seen.count));
  seen.from_other = std::sqrt(of_other / static_cast<double>(seen.count));
  return seen;
}

}  // namespace harness::checks
