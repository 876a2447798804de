// Small configurations of every variant for the laws of decoding and of the back ends: blocks are dropped, windows cut, rows
// without compressed tokens, d_k != d_v.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nsa/base/config.h"

namespace nsa::testing {

inline ModelConfig small_config() {
  ModelConfig config;
  config.dim = 20;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_groups = 2;
  config.d_k = 8;
  config.d_v = 6;
  config.l = 8;
  config.d = 4;
  config.l_sel = 16;
  config.n_sel = 4;
  config.w = 20;
  config.vocab_size = 29;
  return config;
}

inline std::vector<std::pair<std::string, ModelConfig>> variants() {
  ModelConfig sigmoid = small_config();
  sigmoid.gate = Gate::head_sigmoid;
  sigmoid.phi = Phi::conv;
  sigmoid.eq9 = Eq9::overlap;
  sigmoid.rope_scale = 2.0;
  ModelConfig mlp = small_config();
  mlp.phi = Phi::mlp;
  mlp.gate_temp = 0.5;
  mlp.d_v = 10;
  ModelConfig other = small_config();
  other.l = 6;  // longer than l_sel, no power of two
  other.d = 2;
  other.l_sel = 4;
  other.init_blocks = 0;
  other.local_blocks = 1;
  other.n_sel = 3;
  other.w = 1;
  return {{"default", small_config()},
          {"sigmoid_conv_overlap", sigmoid},
          {"mlp", mlp},
          {"other", other}};
}

}  // namespace nsa::testing
