#include "nsa/train/schedule.h"

#include <cmath>
#include <numbers>

namespace nsa {

double learning_rate(const OptimizerConfig& config, std::int64_t step) {
  const auto k = static_cast<double>(step - 1);
  const auto warmup = static_cast<double>(config.warmup);
  const auto total = static_cast<double>(config.total);
  if (k < warmup) {
    return config.lr * (k + 1.0) / warmup;
  }
  if (k >= total) {
    return 0.0;
  }
  return config.lr * (1.0 + std::cos(std::numbers::pi * (k - warmup) / (total - warmup))) / 2.0;
}

}  // namespace nsa
