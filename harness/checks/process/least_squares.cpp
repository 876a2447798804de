#include "harness/checks/process/least_squares.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace harness::checks {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Student's t by degrees of freedom (Abramowitz and Stegun, table 26.10), both sides together; the last one stands for all
// that follow: within a tenth for 95 %, too wide by a fifth at most for 99 %.
using Quantiles = std::array<double, 11>;
constexpr Quantiles kT95 = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.0};
constexpr Quantiles kT99 = {
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106};

double student_t(const Quantiles& table, std::size_t freedom) {
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  return table[std::min(freedom, table.size()) - 1];
}

std::vector<double> logs(const std::vector<double>& values) {
  std::vector<double> result;
  result.reserve(values.size());
  for (const double value : values) result.push_back(std::log(value));
  return result;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct Fit {
  double mean = 0.0;  // of y
  double slope = 0.0;
  std::size_t freedom = 0;
  double deviation = 1.0;  // of the slope, where there is any freedom
  double scatter = 0.0;    // of y about the line
};

Fit fit_of(const std::vector<double>& x, const std::vector<double>& y) {
  const double x_mean = mean(x);
  const double y_mean = mean(y);
  double xx = 0.0;
  double xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    xy += (x[i] - x_mean) * (y[i] - y_mean);
  }
  Fit fit{y_mean, xy / xx, x.size() - 2};
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double rest = y[i] - y_mean - fit.slope * (x[i] - x_mean);
    squares += rest * rest;
  }
  if (fit.freedom == 0) return fit;
  fit.scatter = std::sqrt(squares / static_cast<double>(fit.freedom));
  fit.deviation = fit.scatter / std::sqrt(xx);
  return fit;
}

// Gauss with column pivoting; a column without a pivot gets 0.
std::vector<double> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (!(std::abs(a[pivot][column]) > 0.0)) continue;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double share = a[row][column] / a[column][column];
      for (std::size_t i = column; i < n; ++i) a[row][i] -= share * a[column][i];
      b[row] -= share * b[column];
    }
  }
  std::vector<double> x(n, 0.0);
  for (std::size_t row = n; row-- > 0;) {
    double rest = b[row];
    for (std::size_t i = row + 1; i < n; ++i) rest -= a[row][i] * x[i];
    if (std::abs(a[row][row]) > 0.0) x[row] = rest / a[row][row];
  }
  return x;
}

std::vector<double> weighted_fit(const Matrix& features,
                                 const std::vector<double>& y,
                                 const std::vector<std::size_t>& used) {
  Matrix normal(used.size(), std::vector<double>(used.size(), 0.0));
  std::vector<double> right(used.size(), 0.0);
  for (std::size_t row = 0; row < y.size(); ++row) {
    for (std::size_t i = 0; i < used.size(); ++i) {
      const double left = features[row][used[i]] / y[row];
      right[i] += left;
      for (std::size_t j = 0; j < used.size(); ++j)
        normal[i][j] += left * features[row][used[j]] / y[row];
    }
  }
  return solve(std::move(normal), std::move(right));
}

}  // namespace

PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y) {
  const Fit fit = fit_of(logs(x), logs(y));
  const double reach = student_t(kT95, fit.freedom) * fit.deviation;
  return {fit.slope, fit.slope - reach, fit.slope + reach};
}

Line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const Fit fit = fit_of(x, y);
  const double reach = student_t(kT99, fit.freedom) * fit.deviation;
  return {fit.mean, fit.slope, fit.slope - reach, fit.slope + reach, fit.scatter};
}

std::vector<double> fit_shares(const Matrix& features, const std::vector<double>& y) {
  std::vector<std::size_t> used(features.front().size());
  std::iota(used.begin(), used.end(), std::size_t{0});
  while (!used.empty()) {
    const std::vector<double> found = weighted_fit(features, y, used);
    const auto worst = std::min_element(found.begin(), found.end());
    if (*worst >= 0.0) {
      std::vector<double> all(features.front().size(), 0.0);
      for (std::size_t i = 0; i < used.size(); ++i) all[used[i]] = found[i];
      return all;
    }
    used.erase(used.begin() + (worst - found.begin()));
  }
  return std::vector<double>(features.front().size(), 0.0);
}

}  // namespace harness::checks
