// Attention layers as a rank records them: computed by the oracle stage by stage from random weights and inputs, every tensor
// rounded to float, which is what a perfect float32 implementation would give. A stage can be spoiled; what follows from it is
// then computed from the spoiled tensor, as in a real layer.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/checks/layer_record.h"
#include "nsa/base/safetensors.h"
#include "oracles/attention/attention.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/gate.h"
#include "oracles/attention/rope.h"
#include "oracles/attention/score_bound.h"
#include "oracles/attention/selection.h"
#include "oracles/laws/key_laws.h"
#include "oracles/linear.h"

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

inline oracles::Weights random_weights(int layer, const nsa::ModelConfig& model = toy_model()) {
  oracles::Weights weights;
  unsigned seed = 17U + 100U * static_cast<unsigned>(layer);
  for (const auto& [name, shape] : oracles::weight_shapes(harness::checks::oracle_config(model))) {
    weights[name] = random_tensor(shape, 0.4, ++seed);
  }
  return weights;
}

struct LayerSetting {
  nsa::ModelConfig model = toy_model();
  std::int64_t length = kLength;
  std::int64_t batch = 1;
  std::optional<std::array<double, 3>> gate_override;
  std::function<void(const std::string& name, oracles::Tensor&)> spoil;  // a tensor just made
  std::function<void(oracles::IntTensor&)> spoil_blocks;
  std::function<void(oracles::Tensor& x, oracles::Tensor& dy)> inputs;
  bool gradients = true;
};

class LayerMaker {
 public:
  LayerMaker(const LayerSetting& setting, int of_rank, int layer)
      : setting_(setting),
        config_(harness::checks::oracle_config(setting.model)),
        weights_(random_weights(layer, setting.model)),
        rows_(static_cast<std::size_t>(setting.length)) {
    std::iota(rows_.begin(), rows_.end(), 0);
    const auto seed = static_cast<unsigned>(7000 + 10 * of_rank + layer);
    x_ = random_tensor({setting.batch, setting.length, config_.dim}, 1.0, seed);
    dy_ = random_tensor({setting.batch, setting.length, config_.dim}, 0.01, seed + 5000);
    if (setting.inputs) setting.inputs(x_, dy_);
  }

  LayerTensors make() {
    put("x", x_);
    put("dy", dy_);
    const oracles::Shape q_shape = {setting_.batch,
                                    config_.n_kv_groups,
                                    config_.heads_per_group(),
                                    setting_.length,
                                    config_.d_k};
    put("q", oracles::reshaped(rotated(projected("W_Q.weight", config_.n_heads)), q_shape));
    for (const std::string branch : {"cmp", "sel", "win"}) {
      const std::string name = branch == "cmp" ? "raw" : branch;
      put("k_" + name, rotated(projected("W_K_" + branch + ".weight", config_.n_kv_groups)));
      put("v_" + name, projected("W_V_" + branch + ".weight", config_.n_kv_groups));
    }
    const oracles::Layer layer{config_, weights_, 1};
    put("k_cmp", oracles::compress(layer, oracles::PhiOf::keys, at("k_raw")));
    put("v_cmp", oracles::compress(layer, oracles::PhiOf::values, at("v_raw")));
    choose();
    const oracles::KeyLawOutputs attended(config_,
                                          {rows_,
                                           at("q"),
                                           {at("k_cmp"), at("k_sel"), at("k_win")},
                                           {at("v_cmp"), at("v_sel"), at("v_win")},
                                           made_.blocks},
                                          1);
    put("o_cmp", attended.right_output(oracles::Branch::cmp));
    put("o_sel", attended.right_output(oracles::Branch::sel));
    put("o_win", attended.right_output(oracles::Branch::win));
    const oracles::GateInputs inputs{at("q"), x_};
    put("gate",
        setting_.gate_override ? oracles::constant_gate(config_, inputs, *setting_.gate_override)
                               : oracles::gate(layer, inputs));
    put("y", mixed());
    for (const auto& [name, weight] : weights_) put("w." + name, weight);
    if (setting_.gradients) add_gradients();
    as_recorded();
    return std::move(made_);
  }

 private:
  const oracles::Tensor& at(const std::string& name) const { return made_.reals.at(name); }

  void put(const std::string& name, oracles::Tensor tensor) {
    if (setting_.spoil) setting_.spoil(name, tensor);
    made_.reals[name] = rounded(std::move(tensor));
  }

  oracles::Tensor projected(const std::string& weight, std::int64_t heads) const {
    return oracles::split_heads(oracles::linear(x_, weights_.at(weight), 1), heads);
  }
  oracles::Tensor rotated(oracles::Tensor heads) const {
    oracles::rotate(heads, config_, rows_, oracles::Turn::forward);
    return heads;
  }

  void choose() {
    put("p_grp",
        oracles::scores_from(config_,
                             {at("q"), at("k_cmp"), setting_.length, rows_},
                             oracles::Arithmetic::float32(),
                             1)
            .p_grp);
    made_.blocks = oracles::filled<std::int64_t>(
        {setting_.batch, config_.n_kv_groups, setting_.length, config_.n_sel}, -1);
    const std::int64_t count = config_.block_count(setting_.length);
    for (std::int64_t row = 0; row < setting_.batch * config_.n_kv_groups * setting_.length;
         ++row) {
      const std::span scores(at("p_grp").data.data() + row * count,
                             static_cast<std::size_t>(count));
      const auto chosen = oracles::select_blocks(config_, row % setting_.length, scores).blocks;
      std::copy(chosen.begin(), chosen.end(), made_.blocks.data.begin() + row * config_.n_sel);
    }
    if (setting_.spoil_blocks) setting_.spoil_blocks(made_.blocks);
  }

  oracles::Tensor mixed() const {
    const std::int64_t h = config_.heads_per_group();
    const oracles::GateIndex index(config_, setting_.length);
    oracles::Tensor sum =
        oracles::zeros({setting_.batch, config_.n_heads, setting_.length, config_.d_v});
    for (std::size_t i = 0; i < sum.data.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i) / config_.d_v;
      const std::int64_t head = place / setting_.length;
      const double* g =
          at("gate").data.data() + index.at(head / h, head % h, place % setting_.length);
      sum.data[i] =
          g[0] * at("o_cmp").data[i] + g[1] * at("o_sel").data[i] + g[2] * at("o_win").data[i];
    }
    return oracles::linear(oracles::merge_heads(sum), weights_.at("out.weight"), 1);
  }

  void add_gradients() {
    oracles::AttentionOptions options;
    options.replay = made_.blocks;
    options.gate_override = setting_.gate_override;
    options.threads = 1;
    const auto pass = oracles::attention_with_gradients(config_, weights_, x_, dy_, options);
    put("dx", pass.gradients.x);
    for (const auto& [name, gradient] : pass.gradients.weights) {
      // A gate that is a constant gives its weights no gradient.
      if (setting_.gate_override && name.rfind("gate.", 0) == 0) continue;
      put("g.w." + name, gradient);
    }
  }

  void as_recorded() {  // [B,G,h,S,D] is recorded as [B,H,S,D]
    for (const char* name : {"q", "o_cmp", "o_sel", "o_win"}) {
      oracles::Tensor& tensor = made_.reals.at(name);
      tensor.shape = {setting_.batch, config_.n_heads, setting_.length, tensor.shape.back()};
    }
    if (config_.gate == oracles::Gate::head_sigmoid) {
      made_.reals.at("gate").shape = {setting_.batch, config_.n_heads, setting_.length, 3};
    }
  }

  const LayerSetting& setting_;
  oracles::AttentionConfig config_;
  oracles::Weights weights_;
  std::vector<std::int64_t> rows_;
  oracles::Tensor x_;
  oracles::Tensor dy_;
  LayerTensors made_;
};

inline LayerTensors made_layer(const LayerSetting& setting, int of_rank, int layer) {
  return LayerMaker(setting, of_rank, layer).make();
}

inline const LayerTensors& healthy_layer(int of_rank, int layer) {
  static std::map<std::pair<int, int>, LayerTensors> known;
  const auto at = known.find({of_rank, layer});
  if (at != known.end()) return at->second;
  return known.emplace(std::pair{of_rank, layer}, made_layer({}, of_rank, layer)).first->second;
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
