#include "harness/history/paired.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace harness::history {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// How many of the means at either end lie outside of the interval; 0: even the whole range is too narrow. Of all 2^n
// choices of signs, so many have a sum of positive ranks of at most k - 1.
std::size_t left_out(std::size_t pairs, double level) {
  const std::size_t most = pairs * (pairs + 1) / 2;
  std::vector<double> share(most + 1, 0.0);  // of the choices, by the sum of the positive ranks
  share[0] = 1.0;
  for (std::size_t rank = 1; rank <= pairs; ++rank) {
    for (std::size_t sum = most + 1; sum-- > 0;) {
      share[sum] = 0.5 * (share[sum] + (sum >= rank ? share[sum - rank] : 0.0));
    }
  }
  std::size_t count = 0;
  for (double both_ends = 2.0 * share[0]; both_ends <= level; both_ends += 2.0 * share[count]) {
    ++count;
  }
  return count;
}

}  // namespace

PairedChange paired_change(std::span<const double> differences, double level) {
  std::vector<double> means;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    for (std::size_t j = i; j < differences.size(); ++j) {
      means.push_back(0.5 * (differences[i] + differences[j]));
    }
  }
  const bool whole =
      std::all_of(means.begin(), means.end(), [](double mean) { return std::isfinite(mean); });
  if (means.empty() || !whole) return {kNaN, kNaN, kNaN};
  std::sort(means.begin(), means.end());
  const double middle = 0.5 * (means[(means.size() - 1) / 2] + means[means.size() / 2]);
  const std::size_t out = left_out(differences.size(), level);
  if (out == 0) return {middle, kNaN, kNaN};
  return {middle, means[out - 1], means[means.size() - out]};
}

}  // namespace harness::history
