// The model m7c_125m of the scenarios, for what is tested or timed at its size.
#pragma once

#include "nsa/base/config.h"

namespace nsa::testing {

inline ModelConfig m7c_125m() {
  ModelConfig config;
  config.dim = 768;
  config.n_layers = 12;
  config.n_heads = 12;
  config.n_kv_groups = 2;
  config.d_k = 64;
  config.d_v = 64;
  config.l = 32;
  config.d = 16;
  config.l_sel = 64;
  config.n_sel = 16;
  config.w = 512;
  return config;
}

}  // namespace nsa::testing
