#include "oracles/model/norm_stage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace oracles {
namespace {

constexpr double kEpsilon = 1e-6;

double root_roundoff(std::int64_t width) {
  return sum_roundoff(width) / 2 + 6;
}

double sum_of_squares(const double* x, std::int64_t width) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    sum += x[i] * x[i];
  }
  return sum;
}

// Of a row, from the sum of its squares.
double inverse_rms(double squares, std::int64_t width) {
  return 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
}

// The cube of the inverse root, which the gradient has in it, underflows. It does so before the squares overflow.
bool cube_underflows(double squares, std::int64_t width, const Rounding& rounding) {
  const double mean = squares / static_cast<double>(width);
  return mean * std::sqrt(mean) > rounding.largest;
}

void require_rows(const Tensor& x_RE, const Tensor& gain_E, const char* name) {
  if (gain_E.shape.size() != 1 || x_RE.shape.size() != 2) {
    throw std::invalid_argument(std::string(name) + ": found " + shape_text(x_RE.shape) + " and " +
                                shape_text(gain_E.shape) + ", wanted [R,E] and [E]");
  }
  require_shape(gain_E, {x_RE.shape[1]}, "gain");
  require_shape(x_RE, x_RE.shape, name);
}

}  // namespace

Expected expected_norm(const Tensor& x_RE, const Tensor& gain_E, const Rounding& rounding) {
  require_rows(x_RE, gain_E, "x");
  const std::int64_t width = x_RE.shape[1];
  const double relative = rounding.stored + root_roundoff(width) * rounding.summed;
  Expected e{x_RE, zeros(x_RE.shape)};
  for (std::int64_t row = 0; row < x_RE.shape[0]; ++row) {
    double* const y = e.value.data.data() + row * width;
    double* const bound = e.bound.data.data() + row * width;
    const double squares = sum_of_squares(y, width);
    if (squares > rounding.largest) {
      std::fill_n(bound, width, std::numeric_limits<double>::infinity());
      continue;
    }
    const double r = inverse_rms(squares, width);
    for (std::int64_t i = 0; i < width; ++i) {
      y[i] *= r * gain_E.data[i];
      bound[i] = relative * std::abs(y[i]) + rounding.flushed;
    }
  }
  return e;
}

Expected expected_norm_gradient(const Tensor& x_RE,
                                const Tensor& gain_E,
                                const Tensor& dy_RE,
                                const Rounding& rounding) {
  require_rows(x_RE, gain_E, "x");
  require_shape(dy_RE, x_RE.shape, "dy");
  const std::int64_t width = x_RE.shape[1];
  const double rho = root_roundoff(width) + 2;
  Expected e{zeros(x_RE.shape), zeros(x_RE.shape)};
  for (std::int64_t row = 0; row < x_RE.shape[0]; ++row) {
    const double* const x = x_RE.data.data() + row * width;
    const double* const dy = dy_RE.data.data() + row * width;
    const double squares = sum_of_squares(x, width);
    if (cube_underflows(squares, width, rounding)) {
      std::fill_n(
          e.bound.data.begin() + row * width, width, std::numeric_limits<double>::infinity());
      continue;
    }
    const double r = inverse_rms(squares, width);
    double along = 0;
    double sizes = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double term = gain_E.data[i] * dy[i] * x[i];
      along += term;
      sizes += std::abs(term);
    }
    const double pull = r * r * r / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const double own = r * gain_E.data[i] * dy[i];
      const double back = pull * along * x[i];
      const std::int64_t at = row * width + i;
      e.value.data[at] = own - back;
      e.bound.data[at] = rounding.stored * std::abs(own - back) +
                         rounding.summed * (rho * (std::abs(own) + 3 * std::abs(back)) +
                                            sum_roundoff(width) * pull * std::abs(x[i]) * sizes) +
                         rounding.flushed;
    }
  }
  return e;
}

Expected expected_gain_gradient(const Matrix& x,
                                const Tensor& gain_E,
                                const Matrix& dy,
                                const Rounding& rounding,
                                double scale) {
  const std::int64_t width = static_cast<std::int64_t>(gain_E.data.size());
  require_matrix(x, x.rows, width, "x");
  require_matrix(dy, x.rows, width, "dy");
  Expected e{zeros({width}), zeros({width})};
  std::vector<double> x_row(static_cast<std::size_t>(width));
  std::vector<double> dy_row(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < x.rows; ++row) {
    x.row(row).copy_to(x_row.data());
    dy.row(row).copy_to(dy_row.data());
    const double squares = sum_of_squares(x_row.data(), width);
    if (squares > rounding.largest) {
      std::fill(e.bound.data.begin(), e.bound.data.end(), std::numeric_limits<double>::infinity());
      break;
    }
    const double r = scale * inverse_rms(squares, width);
    for (std::int64_t i = 0; i < width; ++i) {
      const double term = r * x_row[i] * dy_row[i];
      e.value.data[i] += term;
      e.bound.data[i] += std::abs(term);
    }
  }
  const double summed = rounding.summed * (sum_roundoff(x.rows) + root_roundoff(width));
  for (std::int64_t i = 0; i < width; ++i) {
    e.bound.data[i] =
        rounding.stored * std::abs(e.value.data[i]) + summed * e.bound.data[i] + rounding.flushed;
  }
  return e;
}

}  // namespace oracles
