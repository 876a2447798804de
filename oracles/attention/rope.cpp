#include "oracles/attention/rope.h"

#include <cmath>

namespace oracles {

double rope_angle(const AttentionConfig& config, std::int64_t t, std::int64_t c) {
  const double exponent = -2.0 * static_cast<double>(c) / static_cast<double>(config.d_k);
  return static_cast<double>(t) / config.rope_scale * std::pow(config.rope_base, exponent);
}

void rotate(Tensor& z,
            const AttentionConfig& config,
            const std::vector<std::int64_t>& positions,
            Turn turn) {
  const auto rows = static_cast<std::int64_t>(positions.size());
  const std::int64_t pairs = config.d_k / 2;
  std::vector<double> cosines;
  std::vector<double> sines;
  for (const std::int64_t t : positions) {
    for (std::int64_t c = 0; c < pairs; ++c) {
      const double angle = rope_angle(config, t, c);
      cosines.push_back(std::cos(angle));
      sines.push_back(turn == Turn::forward ? std::sin(angle) : -std::sin(angle));
    }
  }
  const auto vectors = static_cast<std::int64_t>(z.data.size()) / config.d_k;
  for (std::int64_t i = 0; i < vectors; ++i) {
    double* const pair = z.data.data() + i * config.d_k;
    const std::int64_t table = (i % rows) * pairs;
    for (std::int64_t c = 0; c < pairs; ++c) {
      const double even = pair[2 * c];
      const double odd = pair[2 * c + 1];
      pair[2 * c] = even * cosines[table + c] - odd * sines[table + c];
      pair[2 * c + 1] = even * sines[table + c] + odd * cosines[table + c];
    }
  }
}

}  // namespace oracles
