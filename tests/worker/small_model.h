// A model of which a test can afford hundreds of steps: blocks are dropped and the window is cut from 24 tokens on.
#pragma once

#include <cstdint>

#include "nsa/base/config.h"

namespace tests {

inline nsa::ModelConfig small_model(std::int64_t n_layers) {
  nsa::ModelConfig config;
  config.name = "small";
  config.dim = 16;
  config.n_layers = n_layers;
  config.n_heads = 4;
  config.n_kv_groups = 2;
  config.d_k = config.d_v = 4;
  config.l = 4;
  config.d = 2;
  config.l_sel = 8;
  config.n_sel = 3;
  config.w = 8;
  config.vocab_size = 32;
  return config;
}

}  // namespace tests
