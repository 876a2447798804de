#include "nsa/model/layers.h"

namespace nsa {

RmsNormImpl::RmsNormImpl(std::int64_t width)
    : weight_(register_parameter("weight", torch::ones({width}))) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x_BSE) {
  constexpr double kEpsilon = 1e-6;  // SPEC 2
  return x_BSE * torch::rsqrt(x_BSE.square().mean(-1, /*keepdim=*/true) + kEpsilon) * weight_;
}

MlpImpl::MlpImpl(std::int64_t width, std::int64_t hidden)
    : fc1_(register_module("fc1",
                           torch::nn::Linear(torch::nn::LinearOptions(width, hidden).bias(false)))),
      fc2_(register_module(
          "fc2", torch::nn::Linear(torch::nn::LinearOptions(hidden, width).bias(false)))) {}

torch::Tensor MlpImpl::forward(const torch::Tensor& x_BSE) {
  return fc2_(torch::silu(fc1_(x_BSE)));
}

GateMlpImpl::GateMlpImpl(const ModelConfig& config)
    : fc1_(register_module("fc1", torch::nn::Linear(config.d_k, config.gate_width()))),
      fc2_(register_module("fc2", torch::nn::Linear(config.gate_width(), 3))) {
  const torch::NoGradGuard no_gradient;
  torch::nn::init::xavier_uniform_(fc2_->weight, /*gain=*/0.1);
  fc2_->bias.zero_();
}

GateWeights GateMlpImpl::weights() const {
  return {fc1_->weight, fc1_->bias, fc2_->weight, fc2_->bias};
}

}  // namespace nsa
