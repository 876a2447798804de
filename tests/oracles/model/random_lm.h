// A small random language model: every size and option drawn.
#pragma once

#include "oracles/model/lm.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {

struct RandomLm {
  LmConfig config;
  Weights parameters;
  IntTensor tokens;

  explicit RandomLm(std::uint64_t seed) {
    Random random(seed);
    config.attention = random_variant(random);
    config.attention.dim = random.from(2, 6);
    config.n_layers = random.from(1, 3);
    config.vocab_size = random.from(2, 9);
    config.mlp_ratio = random.from(1, 4);
    for (const auto& [name, shape] : parameter_shapes(config)) {
      parameters[name] = random.tensor(shape, 0.6);
    }
    tokens = filled<std::int64_t>({random.from(1, 2), random.from(2, 30)}, 0);
    for (std::int64_t& token : tokens.data) {
      token = random.from(0, config.vocab_size - 1);
    }
  }
};

}  // namespace oracles::testing
