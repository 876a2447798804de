// Small random layers: every size and option drawn, so that a property is tried on shapes nobody
// thought of. The same seed gives the same layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "oracles/attention/attention.h"
#include "oracles/numbers.h"

namespace oracles::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t from(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  double normal() { return normal_(engine_); }
  Tensor tensor(const Shape& shape, double scale) {
    Tensor result = zeros(shape);
    for (double& value : result.data) {
      value = scale * normal();
    }
    return result;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
};

inline Tensor rounded_to(Tensor tensor, Number number) {
  for (double& value : tensor.data) {
    value = rounded(value, number);
  }
  return tensor;
}

inline Tensor drawn(Random& random, const Shape& shape, double scale, Number number) {
  return rounded_to(random.tensor(shape, scale), number);
}

// The default variant: phi avg, gate group_softmax, eq9 fractional.
inline AttentionConfig random_config(Random& random) {
  AttentionConfig c;
  c.dim = random.from(1, 9);
  c.n_kv_groups = random.from(1, 3);
  c.n_heads = c.n_kv_groups * random.from(1, 3);
  c.d_k = 2 * random.from(1, 5);
  c.d_v = random.from(1, 9);
  c.d = random.from(1, 4);
  c.l = c.d * random.from(1, 4);
  c.l_sel = c.d * random.from(1, 4);
  c.init_blocks = random.from(0, 2);
  c.local_blocks = random.from(1, 3);
  c.n_sel = c.init_blocks + c.local_blocks + random.from(0, 2);
  c.w = random.from(1, 20);
  c.rope_base = random.from(0, 1) != 0 ? 10000 : 50;
  c.rope_scale = static_cast<double>(random.from(1, 3));
  c.gate_temp = 0.5 * static_cast<double>(random.from(1, 4));
  c.gate_hidden = random.from(0, 5);
  return c;
}

// Any variant.
inline AttentionConfig random_variant(Random& random) {
  AttentionConfig c = random_config(random);
  c.gate = random.from(0, 1) != 0 ? Gate::head_sigmoid : Gate::group_softmax;
  c.phi = static_cast<Phi>(random.from(0, 2));
  c.eq9 = random.from(0, 1) != 0 ? Eq9::overlap : Eq9::fractional;
  return c;
}

struct RandomLayer {
  AttentionConfig config;
  Weights weights;
  Tensor x;
  Tensor dy;

  RandomLayer(Random& random, const AttentionConfig& drawn, std::int64_t batch, std::int64_t length)
      : config(drawn) {
    for (const auto& [name, shape] : weight_shapes(config)) {
      weights[name] = random.tensor(shape, 0.7);
    }
    x = random.tensor({batch, length, config.dim}, 1);
    dy = random.tensor(x.shape, 1);
  }
  [[nodiscard]] std::int64_t length() const { return x.shape[1]; }
};

inline RandomLayer random_layer(std::uint64_t seed) {
  Random random(seed);
  const AttentionConfig config = random_variant(random);
  const std::int64_t batch = random.from(1, 2);
  return {random, config, batch, random.from(1, 45)};
}

// A layer that always has compressed tokens, blocks to drop and a window to cut.
inline RandomLayer dropping_layer(std::uint64_t seed) {
  Random random(seed);
  AttentionConfig config;
  config.dim = 7;
  config.n_heads = 6;
  config.n_kv_groups = 2;
  config.d_k = 6;
  config.d_v = 5;
  config.l = 4;
  config.d = 2;
  config.l_sel = 4;
  config.n_sel = 4;
  config.w = 6;
  return {random, config, 2, 37};
}

}  // namespace oracles::testing
