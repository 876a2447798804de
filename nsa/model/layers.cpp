#include "nsa/model/layers.h"

#include <utility>

namespace nsa {

RmsNormImpl::RmsNormImpl(std::int64_t width, Norm norm)
    : weight_(register_parameter("weight", torch::ones({width}))), norm_(std::move(norm)) {}

namespace {

torch::nn::Linear linear(std::int64_t inputs, std::int64_t outputs) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

}  // namespace

MlpImpl::MlpImpl(std::int64_t width, std::int64_t hidden, MlpDown down)
    : fc1_(register_module("fc1", linear(width, hidden))),
      fc2_(register_module("fc2", linear(hidden, width))),
      down_(std::move(down)) {}

torch::Tensor MlpImpl::forward(const torch::Tensor& x_BSE, const MlpTap& tap) {
  auto hidden_BSF = fc1_(x_BSE);
  auto activated_BSF = torch::silu(hidden_BSF);
  const auto y_BSE = down_(activated_BSF, hidden_BSF, fc2_->weight);
  if (tap) tap({x_BSE, std::move(hidden_BSF), std::move(activated_BSF), y_BSE});
  return y_BSE;
}

GateLayerImpl::GateLayerImpl(const ModelConfig& config) {
  if (config.gate == Gate::head_sigmoid) {
    proj_ = register_module("proj", linear(config.dim, 3 * config.n_heads));
    return;
  }
  fc1_ = register_module("fc1", torch::nn::Linear(config.d_k, config.gate_width()));
  fc2_ = register_module("fc2", torch::nn::Linear(config.gate_width(), 3));
  const torch::NoGradGuard no_gradient;
  torch::nn::init::xavier_uniform_(fc2_->weight, /*gain=*/0.1);
  fc2_->bias.zero_();
}

GateWeights GateLayerImpl::weights() const {
  GateWeights weights;
  if (proj_) {
    weights.proj_weight = proj_->weight;
  } else {
    weights.fc1_weight = fc1_->weight;
    weights.fc1_bias = fc1_->bias;
    weights.fc2_weight = fc2_->weight;
    weights.fc2_bias = fc2_->bias;
  }
  return weights;
}

PhiConvImpl::PhiConvImpl(const ModelConfig& config, std::int64_t width)
    : weight_(register_parameter(
          "weight", torch::full({width, 1, config.l}, 1.0 / static_cast<double>(config.l)))) {}

PhiWeights PhiConvImpl::weights() const {
  PhiWeights weights;
  weights.conv = weight_;
  return weights;
}

PhiMlpImpl::PhiMlpImpl(const ModelConfig& config, std::int64_t width)
    : pe_(register_parameter("pe", torch::zeros({config.l, width}))),
      fc1_(register_module("fc1", linear(config.l * width, 2 * width))),
      fc2_(register_module("fc2", linear(2 * width, width))) {}

PhiWeights PhiMlpImpl::weights() const {
  PhiWeights weights;
  weights.pe = pe_;
  weights.fc1_weight = fc1_->weight;
  weights.fc2_weight = fc2_->weight;
  return weights;
}

}  // namespace nsa
