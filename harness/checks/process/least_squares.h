// How a quantity grows with a size or with the steps, and what it will be at another size. Plain least squares.
#pragma once

#include <vector>

namespace harness::checks {

// y ~ x^exponent: the slope of log y over log x with its 95 % confidence interval (Student's t; infinite for two points).
struct PowerLaw {
  double exponent = 0.0;
  double low = 0.0;
  double high = 0.0;
};
// REQUIRES: sizes match, at least 2 points, all above 0, not all x equal.
[[nodiscard]] PowerLaw fit_power_law(const std::vector<double>& x, const std::vector<double>& y);

// y ~ mean + slope (x - mean x): the slope with its 99 % confidence interval (infinite for two points), and the standard
// deviation of the residuals.
struct Line {
  double mean = 0.0;
  double slope = 0.0;
  double low = 0.0;
  double high = 0.0;
  double scatter = 0.0;
};
// REQUIRES: sizes match, at least 2 points, not all x equal.
[[nodiscard]] Line fit_line(const std::vector<double>& x, const std::vector<double>& y);

// Coefficients >= 0 of features_i . c ~ y_i, each row weighted by 1/y_i (relative errors count). A coefficient that would be
// negative is set to 0. REQUIRES: at least one row, rows of one width, y above 0.
[[nodiscard]] std::vector<double> fit_shares(const std::vector<std::vector<double>>& features,
                                             const std::vector<double>& y);

}  // namespace harness::checks
