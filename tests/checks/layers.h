// Attention layers as a rank records them: computed by the oracle from random weights and inputs and rounded to float, which is
// what a perfect float32 implementation would give.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/checks/layer_record.h"
#include "nsa/base/safetensors.h"
#include "oracles/attention.h"

namespace fixtures {

inline nsa::ModelConfig toy_model() {
  nsa::ModelConfig model;
  model.name = "fixture";
  model.dim = 16;
  model.n_layers = 3;
  model.n_heads = 4;
  model.n_kv_groups = 2;
  model.d_k = 4;
  model.d_v = 4;
  model.l = 4;
  model.d = 2;
  model.l_sel = 4;
  model.n_sel = 4;
  model.w = 6;
  return model;
}

inline constexpr std::int64_t kLength = 32;

struct LayerTensors {
  std::map<std::string, oracles::Tensor> reals;
  oracles::IntTensor blocks;
};

inline oracles::Tensor random_tensor(const oracles::Shape& shape, double scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, static_cast<float>(scale));
  oracles::Tensor tensor = oracles::zeros(shape);
  for (double& value : tensor.data) value = static_cast<double>(normal(random));
  return tensor;
}

inline oracles::Tensor rounded(oracles::Tensor tensor) {
  for (double& value : tensor.data) value = static_cast<double>(static_cast<float>(value));
  return tensor;
}

inline oracles::Weights random_weights(int layer) {
  oracles::Weights weights;
  unsigned seed = 17U + 100U * static_cast<unsigned>(layer);
  for (const auto& [name, shape] :
       oracles::weight_shapes(harness::checks::oracle_config(toy_model()))) {
    weights[name] = random_tensor(shape, 0.4, ++seed);
  }
  return weights;
}

inline LayerTensors computed_layer(int of_rank, int layer) {
  const auto config = harness::checks::oracle_config(toy_model());
  const oracles::Weights weights = random_weights(layer);
  const auto seed = static_cast<unsigned>(7000 + 10 * of_rank + layer);
  const oracles::Tensor x = random_tensor({1, kLength, config.dim}, 1.0, seed);
  const oracles::Tensor dy = random_tensor({1, kLength, config.dim}, 0.01, seed + 5000);
  const auto pass = oracles::attention_with_gradients(config, weights, x, dy);
  LayerTensors tensors;
  tensors.blocks = pass.result.blocks;
  auto& reals = tensors.reals;
  reals = {{"x", x},
           {"dy", dy},
           {"q", rounded(pass.result.q)},
           {"k_cmp", rounded(pass.result.k_cmp)},
           {"v_cmp", rounded(pass.result.v_cmp)},
           {"p_grp", rounded(pass.result.p_grp)},
           {"o_cmp", rounded(pass.result.o_cmp)},
           {"o_sel", rounded(pass.result.o_sel)},
           {"o_win", rounded(pass.result.o_win)},
           {"gate", rounded(pass.result.gate)},
           {"y", rounded(pass.result.y)},
           {"dx", rounded(pass.gradients.x)}};
  for (const char* name : {"q", "o_cmp", "o_sel", "o_win"}) {
    oracles::Tensor& tensor = reals.at(name);  // [B,G,h,S,D] is recorded as [B,H,S,D]
    tensor.shape = {1, config.n_heads, kLength, tensor.shape.back()};
  }
  for (const auto& [name, weight] : weights) reals["w." + name] = weight;
  for (const auto& [name, gradient] : pass.gradients.weights)
    reals["g.w." + name] = rounded(gradient);
  return tensors;
}

inline const LayerTensors& healthy_layer(int of_rank, int layer) {
  static std::map<std::pair<int, int>, LayerTensors> known;
  const auto at = known.find({of_rank, layer});
  if (at != known.end()) return at->second;
  return known.emplace(std::pair{of_rank, layer}, computed_layer(of_rank, layer)).first->second;
}

inline void save_layer(const std::string& path, const LayerTensors& tensors) {
  std::map<std::string, std::vector<float>> floats;
  std::vector<nsa::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors.reals) {
    auto& values = floats[name];
    for (const double value : tensor.data) values.push_back(static_cast<float>(value));
    list.push_back({name, nsa::DType::f32, tensor.shape, std::as_bytes(std::span(values))});
  }
  list.push_back({"blocks",
                  nsa::DType::i64,
                  tensors.blocks.shape,
                  std::as_bytes(std::span(tensors.blocks.data))});
  nsa::write_safetensors(path, list);
}

}  // namespace fixtures
