#include "oracles/model/rms_norm.h"

#include <cmath>

namespace oracles {
namespace {

constexpr double kEpsilon = 1e-6;

// 1 / sqrt(mean(z^2) + 1e-6)
double inverse_rms(const double* z, std::size_t width) {
  double sum = 0;
  for (std::size_t i = 0; i < width; ++i) {
    sum += z[i] * z[i];
  }
  return 1 / std::sqrt(sum / static_cast<double>(width) + kEpsilon);
}

}  // namespace

Tensor rms_norm(const Tensor& z, const Tensor& gain) {
  const std::size_t width = gain.data.size();
  Tensor y = z;
  for (std::size_t row = 0; row < z.data.size(); row += width) {
    const double inverse = inverse_rms(z.data.data() + row, width);
    for (std::size_t i = 0; i < width; ++i) {
      y.data[row + i] *= inverse * gain.data[i];
    }
  }
  return y;
}

// With r = 1 / sqrt(mean(z^2) + eps): dr/dz_i = -r^3 z_i / n, so
// dz_i = r gain_i dy_i - r^3 z_i (sum_j gain_j dy_j z_j) / n, and dgain_i = r z_i dy_i.
void add_rms_norm_gradients(
    const Tensor& dy, const Tensor& z, const Tensor& gain, Tensor& dz, Tensor& dgain) {
  const std::size_t width = gain.data.size();
  for (std::size_t row = 0; row < z.data.size(); row += width) {
    const double r = inverse_rms(z.data.data() + row, width);
    double along_z = 0;
    for (std::size_t i = 0; i < width; ++i) {
      along_z += gain.data[i] * dy.data[row + i] * z.data[row + i];
    }
    const double pull = r * r * r * along_z / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      dz.data[row + i] += r * gain.data[i] * dy.data[row + i] - pull * z.data[row + i];
      dgain.data[i] += r * z.data[row + i] * dy.data[row + i];
    }
  }
}

}  // namespace oracles
