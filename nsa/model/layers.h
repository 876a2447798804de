// The small layers of the model: normalisation, MLP, and the weights of the gate and of phi. Plain modules.
// Shape letters: B batch, S position, E width of the residual stream.
#pragma once

#include <functional>

#include "nsa/seams/mlp.h"
#include "nsa/seams/norm.h"
#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace nsa {

// The weight of seam `norm` (nsa/seams/norm.h), which starts at one.
class RmsNormImpl : public torch::nn::Module {
 public:
  RmsNormImpl(std::int64_t width, Norm norm);
  torch::Tensor forward(const torch::Tensor& x_BSE) { return norm_(x_BSE, weight_); }

 private:
  torch::Tensor weight_;
  Norm norm_;
};
TORCH_MODULE(RmsNorm);

// What an MLP computed, for somebody who looks. F is the hidden width.
struct MlpTrace {
  torch::Tensor x_BSE;
  torch::Tensor hidden_BSF;     // fc1 x
  torch::Tensor activated_BSF;  // silu of it
  torch::Tensor y_BSE;
};

using MlpTap = std::function<void(const MlpTrace&)>;

// fc2(silu(fc1 x)), without biases.
class MlpImpl : public torch::nn::Module {
 public:
  MlpImpl(std::int64_t width, std::int64_t hidden, MlpDown down);
  // Shows `tap` what was computed on the way, where there is one.
  torch::Tensor forward(const torch::Tensor& x_BSE, const MlpTap& tap = nullptr);

 private:
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  MlpDown down_;
};
TORCH_MODULE(Mlp);

// Holds the weights of the gate; the seam `gate` computes with them. group_softmax: fc1, fc2, and fc2 starts near zero, so
// that training begins with three branches of almost equal weight. head_sigmoid: proj.
class GateLayerImpl : public torch::nn::Module {
 public:
  explicit GateLayerImpl(const ModelConfig& config);
  [[nodiscard]] GateWeights weights() const;

 private:
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear proj_{nullptr};
};
TORCH_MODULE(GateLayer);

// Holds the filters of phi `conv`, [width,1,l]; 1/l everywhere at first, which is phi `avg`.
class PhiConvImpl : public torch::nn::Module {
 public:
  PhiConvImpl(const ModelConfig& config, std::int64_t width);
  [[nodiscard]] PhiWeights weights() const;

 private:
  torch::Tensor weight_;
};
TORCH_MODULE(PhiConv);

// Holds the weights of phi `mlp`: pe [l,width], zeros at first; fc1 [2*width, l*width]; fc2 [width, 2*width].
class PhiMlpImpl : public torch::nn::Module {
 public:
  PhiMlpImpl(const ModelConfig& config, std::int64_t width);
  [[nodiscard]] PhiWeights weights() const;

 private:
  torch::Tensor pe_;
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
};
TORCH_MODULE(PhiMlp);

}  // namespace nsa
