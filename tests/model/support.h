// What the model's tests share: golden files as tensors, layers with given weights, and the relative error.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "nsa/base/safetensors.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/torch.h"
#include "tests/fakes/where.h"

namespace nsa::testing {

inline torch::Tensor to_tensor(const TensorView& view) {
  const auto dtype = view.dtype == DType::i64 ? torch::kLong : torch::kDouble;
  EXPECT_TRUE(view.dtype == DType::i64 || view.dtype == DType::f64) << view.where;
  auto result = torch::empty(view.shape, dtype);
  if (result.numel() > 0) std::memcpy(result.data_ptr(), view.bytes.data(), view.bytes.size());
  return result;
}

inline ModelConfig config_of(const nlohmann::json& json) {
  ModelConfig config;
  config.dim = json.at("dim");
  config.n_layers = json.value("n_layers", 1);
  config.n_heads = json.at("n_heads");
  config.n_kv_groups = json.at("n_kv_groups");
  config.d_k = json.at("d_k");
  config.d_v = json.at("d_v");
  config.l = json.at("l");
  config.d = json.at("d");
  config.l_sel = json.at("l_sel");
  config.n_sel = json.at("n_sel");
  config.w = json.at("w");
  config.init_blocks = json.at("init_blocks");
  config.local_blocks = json.at("local_blocks");
  config.vocab_size = json.value("vocab_size", 256);
  config.mlp_ratio = json.value("mlp_ratio", 4);
  config.rope_base = json.at("rope_base");
  config.rope_scale = json.at("rope_scale");
  const std::string gate = json.at("gate");
  config.gate = gate == "head_sigmoid" ? Gate::head_sigmoid : Gate::group_softmax;
  config.gate_temp = json.value("gate_temp", 1.0);
  config.gate_hidden = json.value("gate_hidden", 0);
  const std::string phi = json.at("phi");
  config.phi = phi == "conv" ? Phi::conv : phi == "mlp" ? Phi::mlp : Phi::avg;
  config.eq9 = json.at("eq9") == "overlap" ? Eq9::overlap : Eq9::fractional;
  return config;
}

struct Golden {
  explicit Golden(const std::string& name)
      : file(fakes::tree() + "/tests/golden/" + name + ".safetensors"),
        json(nlohmann::json::parse(file.metadata().at("config"))),
        config(config_of(json)) {}
  [[nodiscard]] torch::Tensor at(const std::string& name) const { return to_tensor(file.at(name)); }
  // Tensors whose name begins with `prefix`.
  [[nodiscard]] std::size_t count(const std::string& prefix) const {
    return static_cast<std::size_t>(
        std::count_if(file.tensors().begin(), file.tensors().end(), [&](const auto& entry) {
          return entry.first.rfind(prefix, 0) == 0;
        }));
  }

  SafetensorsFile file;
  nlohmann::json json;
  ModelConfig config;
};

// Largest relative error of tensors against what they should be: over the largest number of each, or a thousandth of the largest of
// its kind.
class Comparison {
 public:
  void add(const std::string& kind,
           const std::string& name,
           const torch::Tensor& found,
           const torch::Tensor& wanted) {
    ASSERT_EQ(found.numel(), wanted.numel()) << name;
    const auto x = found.detach().to(torch::kDouble).reshape(wanted.sizes());
    const auto r = wanted.detach().to(torch::kDouble);
    const bool none = r.numel() == 0;
    const double error = none ? 0.0 : (x - r).abs().max().item<double>();
    const double scale = none ? 0.0 : r.abs().max().item<double>();
    entries_.push_back({kind, name, error, scale});
    scales_[kind] = std::max(scales_[kind], scale);
  }

  // The largest; NaN where any is NaN. Its tensor's name goes to `name`.
  double worst(std::string& name) const {
    double result = 0.0;
    for (const auto& entry : entries_) {
      const double scale = std::max(entry.scale, 1e-3 * scales_.at(entry.kind));
      const double error = entry.error == 0.0 ? 0.0 : entry.error / scale;
      if (!(error <= result)) {
        result = error;
        name = entry.name;
      }
      if (std::isnan(result)) return result;
    }
    return result;
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string kind;
    std::string name;
    double error;
    double scale;
  };
  std::vector<Entry> entries_;
  std::map<std::string, double> scales_;
};

// A layer in float64 with torch's initial weights of `seed`, which the test may overwrite.
inline Attention make_layer(const ModelConfig& config, Routes& routes, std::uint64_t seed = 0) {
  torch::manual_seed(seed);
  Attention layer(config, 0, make_attention_seams(config, {}), routes);
  layer->to(torch::kDouble);
  return layer;
}

inline void set_parameter(torch::nn::Module& module,
                          const std::string& name,
                          const torch::Tensor& value) {
  const torch::NoGradGuard no_gradient;
  module.named_parameters()[name].copy_(value);
}

// The gradient, or zeros where the parameter had no part in the loss.
inline torch::Tensor gradient_of(const torch::Tensor& leaf) {
  return leaf.grad().defined() ? leaf.grad() : torch::zeros_like(leaf);
}

// Weights that make every branch and the gate matter: torch's initial ones give almost uniform attention.
inline void spread_weights(torch::nn::Module& module, double scale) {
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : module.parameters()) parameter.normal_(0.0, scale);
}

// The gate that lets one branch through: 0 cmp, 1 sel, 2 win.
inline GateOverride one_hot(std::size_t branch) {
  std::array<double, 3> gates = {0.0, 0.0, 0.0};
  gates.at(branch) = 1.0;
  return gates;
}

// What the layer's forward of x [B,S,E] showed.
inline AttentionTrace traced(Attention& layer, const torch::Tensor& x_BSE) {
  AttentionTrace result;
  layer->set_tap([&](const AttentionTrace& trace) { result = trace; });
  layer->forward(x_BSE);
  layer->set_tap(nullptr);
  return result;
}

}  // namespace nsa::testing
