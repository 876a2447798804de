// Attention layers as a rank records them: computed by the oracle stage by stage from random
// weights and inputs, every tensor rounded to float, which is what a perfect float32 implementation
// would give. A stage can be spoiled; what follows from it is then computed from the spoiled
// tensor, as in a real layer.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/checks/attention/record/layer_record.h"
#include "nsa/base/safetensors.h"
#include "oracles/attention/attention.h"
#include "oracles/attention/backward.h"
#include "oracles/attention/rope.h"
#include "oracles/attention/stages.h"

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
  oracles::Number number = oracles::Number::f32;
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

inline oracles::Tensor rounded(oracles::Tensor tensor,
                               oracles::Number number = oracles::Number::f32) {
  oracles::Kept{}.round(tensor.data, number);
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
  std::optional<oracles::Branch> left_out;  // passes no gradient back
  bool added_narrow = false;  // the gradients of what consumes the queries and the input
  // f32, or bf16: then all that a model in bfloat16 keeps is rounded to it.
  oracles::Number number = oracles::Number::f32;
  // What a stage gives instead; the forward is of the right kind.
  std::function<std::optional<oracles::Tensor>(const oracles::Stages&, oracles::Stage)> instead;
};

class LayerMaker {
 public:
  LayerMaker(const LayerSetting& setting, int of_rank, int layer)
      : setting_(setting),
        config_(harness::checks::oracle_config(setting.model)),
        weights_(random_weights(layer, setting.model)) {
    const auto seed = static_cast<unsigned>(7000 + 10 * of_rank + layer);
    x_ = random_tensor({setting.batch, setting.length, config_.dim}, 1.0, seed);
    dy_ = random_tensor({setting.batch, setting.length, config_.dim}, 0.01, seed + 5000);
    if (setting.inputs) setting.inputs(x_, dy_);
    if (setting.number == oracles::Number::f32) return;
    made_.number = setting.number;
    x_ = rounded(x_, setting.number);
    dy_ = rounded(dy_, setting.number);
    for (auto& [name, weight] : weights_) weight = rounded(weight, setting.number);
  }

  LayerTensors make() {
    put("x", x_);
    put("dy", dy_);
    oracles::AttentionOptions options;
    options.gate_override = setting_.gate_override;
    options.threads = 1;
    if (setting_.number != oracles::Number::f32) {
      options.kept = {setting_.number, setting_.number, {}};
    }
    oracles::Stages until_choice(config_, weights_, x_, options);
    make_stages(until_choice, {});
    choose(until_choice);
    options.replay = made_.blocks;
    oracles::Stages forward(config_, weights_, x_, options);
    make_stages(forward, oracles::Stage::blocks);
    for (const auto& [name, weight] : weights_) put("w." + name, weight);
    if (setting_.gradients) add_gradients(forward);
    as_recorded();
    return std::move(made_);
  }

 private:
  // The stages up to the choice, or those after it.
  void make_stages(oracles::Stages& stages, std::optional<oracles::Stage> after) {
    for (const oracles::Stage stage : oracles::all_stages()) {
      const std::string name(oracles::stage_name(stage));
      if (stage == oracles::Stage::blocks) {
        if (!after) return;
        continue;
      }
      if (!after || stage > *after) {
        auto other = setting_.instead ? setting_.instead(stages, stage) : std::nullopt;
        put(name, other ? std::move(*other) : stages.right(stage));
      }
      stages.record(stage, made_.reals.at(name));
    }
  }

  void put(const std::string& name, oracles::Tensor tensor) {
    if (setting_.spoil) setting_.spoil(name, tensor);
    // Scores are float32 in every type.
    made_.reals[name] =
        rounded(std::move(tensor), name == "p_grp" ? oracles::Number::f32 : setting_.number);
  }

  void choose(const oracles::Stages& stages) {
    const oracles::Tensor blocks = stages.right(oracles::Stage::blocks);
    made_.blocks = {blocks.shape, {blocks.data.begin(), blocks.data.end()}};
    if (setting_.spoil_blocks) setting_.spoil_blocks(made_.blocks);
  }

  void add_gradients(const oracles::Stages& forward) {
    const oracles::Backward backward(forward, dy_);
    const oracles::AttentionGradients gradients =
        setting_.left_out       ? without(*setting_.left_out, forward, backward)
        : setting_.added_narrow ? backward.gradients_added_narrow()
                                : backward.gradients();
    put("dx", gradients.x);
    for (const auto& [name, gradient] : gradients.weights) {
      // A gate that is a constant gives its weights no gradient.
      if (setting_.gate_override && name.rfind("gate.", 0) == 0) continue;
      put("g.w." + name, gradient);
    }
  }

  static oracles::AttentionGradients without(oracles::Branch branch,
                                             const oracles::Stages& forward,
                                             const oracles::Backward& backward) {
    const auto zeros_of = [&](oracles::Stage stage) {
      return oracles::zeros(forward.shape_of(stage));
    };
    return backward.gradients(branch,
                              {zeros_of(oracles::Stage::q),
                               zeros_of(oracles::key_stage(branch)),
                               zeros_of(oracles::value_stage(branch))});
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
  std::map<std::string, std::vector<std::uint16_t>> narrow;
  std::vector<nsa::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors.reals) {
    if (tensors.number == oracles::Number::bf16 && name != "p_grp") {
      auto& values = narrow[name];
      for (const double value : tensor.data) {  // exact: the upper half of a float
        values.push_back(static_cast<std::uint16_t>(
            std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U));
      }
      list.push_back({name, nsa::DType::bf16, tensor.shape, std::as_bytes(std::span(values))});
      continue;
    }
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
