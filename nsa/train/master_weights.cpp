#include "nsa/train/master_weights.h"

#include <utility>

namespace nsa {

MasterWeights::MasterWeights(std::vector<torch::Tensor> parameters)
    : parameters_(std::move(parameters)) {
  for (const auto& parameter : parameters_) {
    masters_.push_back(
        parameter.detach().to(torch::kFloat32, /*non_blocking=*/false, /*copy=*/true));
  }
}

void MasterWeights::take_gradients(double scale) {
  const torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!taken_) masters_[i].copy_(parameters_[i]);
    const auto& gradient = parameters_[i].grad();
    masters_[i].mutable_grad() =
        gradient.defined() ? gradient.to(torch::kFloat32).div_(scale) : torch::Tensor();
  }
  taken_ = true;
}

void MasterWeights::load(const std::vector<torch::Tensor>& masters) {
  const torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < masters_.size(); ++i) masters_[i].copy_(masters[i]);
  taken_ = true;
}

void MasterWeights::round_to_parameters() {
  const torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].copy_(masters_[i]);
}

}  // namespace nsa
