#include "harness/history/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace harness::history {
namespace {

constexpr int kPoints =
    48;  // of the grid, in each direction: three digits down to a probability of 1e-6
constexpr double kReach = 6.0;  // normal deviations that the grid covers
constexpr double kMostShared = 0.9;

double upper_tail(double z) {
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

struct Weighted {
  double at = 0.0;
  double weight = 0.0;
};
using Grid = std::array<Weighted, kPoints>;

// Midpoints of equal pieces of [from, to], weighted by exp(log_density), to a sum of 1.
template <typename LogDensity>
Grid make_grid(double from, double to, const LogDensity& log_density) {
  Grid grid;
  double total = 0.0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    grid[i].at = from + (to - from) * (static_cast<double>(i) + 0.5) / kPoints;
    grid[i].weight = std::exp(log_density(grid[i].at));
    total += grid[i].weight;
  }
  for (Weighted& point : grid) point.weight /= total;
  return grid;
}

const Grid& normal_grid() {
  static const Grid kGrid = make_grid(-kReach, kReach, [](double g) { return -0.5 * g * g; });
  return kGrid;
}

// Of the estimated deviation over the true one.
Grid deviation_grid(int freedom) {
  const double nu = freedom;
  const double spread = kReach / std::sqrt(2.0 * nu);
  return make_grid(std::max(0.0, 1.0 - spread), 1.0 + spread, [nu](double u) {
    return (nu - 1.0) * std::log(u) - 0.5 * nu * (u * u - 1.0);
  });
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

Noise noise_of(std::span<const double> values, std::span<const double> halves) {
  Noise noise;
  noise.nights = static_cast<int>(values.size());
  noise.freedom = noise.nights - 1;
  if (noise.freedom < 1) return noise;
  const double mean = mean_of(values);
  double between = 0.0;
  for (const double value : values) between += (value - mean) * (value - mean);
  between /= noise.freedom;
  // Each half has half of the launches, so twice the variance; their difference has four times that of the whole.
  double within = 0.0;
  for (const double half : halves) within += half * half / 4.0;
  within /= static_cast<double>(std::max<std::size_t>(1, halves.size()));
  // Nights that happen to agree better than their launches allow do so by chance.
  noise.deviation = std::sqrt(std::max(between, within));
  noise.shared = between > within ? std::min(kMostShared, 1.0 - within / between) : 0.0;
  return noise;
}

std::vector<std::size_t> undisturbed(std::span<const double> values,
                                     std::span<const double> halves,
                                     double least) {
  constexpr double kOfNormal = 1.4826;  // deviations of a normal variable in one median |x|
  const auto median_size = [](std::span<const double> of, double from) {
    std::vector<double> sizes;
    for (const double one : of) sizes.push_back(std::abs(one - from));
    return sizes.empty() ? 0.0 : quantile(sizes, 0.5);
  };
  const double median = quantile({values.begin(), values.end()}, 0.5);
  // Halves of a night differ by twice the deviation of the whole.
  const double deviation = std::max(
      least, kOfNormal * std::max(median_size(values, median), median_size(halves, 0.0) / 2.0));
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i] - median) <= kDisturbed * deviation) kept.push_back(i);
  }
  return kept;
}

double both_stages_beyond(double deviations, const Noise& noise) {
  const double common = std::sqrt(noise.shared + 1.0 / noise.nights);
  const double own = std::sqrt(1.0 - noise.shared);
  double probability = 0.0;
  for (const Weighted& u : deviation_grid(noise.freedom)) {
    for (const Weighted& g : normal_grid()) {
      const double one = upper_tail((deviations * u.at - g.at * common) / own);
      probability += u.weight * g.weight * one * one;
    }
  }
  return std::min(1.0, 2.0 * probability);
}

double critical_deviations(const Noise& noise, double level) {
  constexpr double kMost = 1024.0;
  constexpr int kHalvings = 14;
  double high = 2.0;
  while (both_stages_beyond(high, noise) > level && high < kMost) high *= 2.0;
  double low = 0.0;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (both_stages_beyond(middle, noise) > level ? low : high) = middle;
  }
  return high;
}

double smallest_visible(const Noise& noise, double critical) {
  // Each stage must be found with a probability of 0.975, which a normal deviate reaches 1.96 deviations beyond the threshold; a
  // little more, since the deviation is only estimated. The level is as uncertain as a night divided by the number of nights.
  constexpr double kEachFound = 2.2;
  return noise.deviation * (critical + kEachFound * std::sqrt(1.0 + 1.0 / noise.nights));
}

std::vector<bool> discoveries(std::span<const double> p, double level) {
  std::vector<double> sorted(p.begin(), p.end());
  std::sort(sorted.begin(), sorted.end());
  double limit = -1.0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] <= level * static_cast<double>(i + 1)) limit = sorted[i];
  }
  std::vector<bool> found;
  for (const double one : p) found.push_back(one <= limit);
  return found;
}

}  // namespace harness::history
