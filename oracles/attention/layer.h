// What every step of one attention layer needs and none changes. Refers to its owner's objects.
#pragma once

#include "oracles/attention/config.h"
#include "oracles/weights.h"

namespace oracles {

struct Layer {
  const AttentionConfig& config;
  const Weights& weights;
  int threads;  // 0: as many as the hardware has

  [[nodiscard]] const Tensor& weight(const std::string& name) const { return weights.at(name); }
};

}  // namespace oracles
