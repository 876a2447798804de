// The small layers of the model: normalisation, MLP, and the gate's two linear maps. Plain modules; weights as in SPEC 2.
// Shape letters: B batch, S position, E width of the residual stream.
#pragma once

#include <torch/torch.h>

#include "nsa/seams/seams.h"

namespace nsa {

// x * rsqrt(mean(x^2) + 1e-6) * weight over the last dimension; weight starts at one.
class RmsNormImpl : public torch::nn::Module {
 public:
  explicit RmsNormImpl(std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x_BSE);

 private:
  torch::Tensor weight_;
};
TORCH_MODULE(RmsNorm);

// fc2(silu(fc1 x)), without biases.
class MlpImpl : public torch::nn::Module {
 public:
  MlpImpl(std::int64_t width, std::int64_t hidden);
  torch::Tensor forward(const torch::Tensor& x_BSE);

 private:
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
};
TORCH_MODULE(Mlp);

// Holds the weights of the gate; the seam `gate` computes with them. fc2 starts near zero, so that training begins with
// three branches of almost equal weight.
class GateMlpImpl : public torch::nn::Module {
 public:
  explicit GateMlpImpl(const ModelConfig& config);
  [[nodiscard]] GateWeights weights() const;

 private:
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
};
TORCH_MODULE(GateMlp);

}  // namespace nsa
