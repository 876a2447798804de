#include "nsa/train/master_weights.h"

#include <utility>

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_div.h>

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
  const std::vector<torch::Tensor> gradients = taken_gradients();
  if (!gradients.empty() && scale != 1.0) at::_foreach_div_(gradients, scale);
}

void MasterWeights::take_gradients(const torch::Tensor& scale) {
  const torch::NoGradGuard no_gradient;
  const std::vector<torch::Tensor> gradients = taken_gradients();
  if (!gradients.empty()) at::_foreach_div_(gradients, scale);
}

// In float32, scale and all.
std::vector<torch::Tensor> MasterWeights::taken_gradients() {
  if (!taken_) at::_foreach_copy_(masters_, parameters_);
  taken_ = true;
  std::vector<torch::Tensor> narrow;
  std::vector<torch::Tensor> wide;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& gradient = parameters_[i].grad();
    masters_[i].mutable_grad() =
        gradient.defined() ? torch::empty_like(masters_[i]) : torch::Tensor();
    if (!gradient.defined()) continue;
    narrow.push_back(gradient);
    wide.push_back(masters_[i].grad());
  }
  if (!wide.empty()) at::_foreach_copy_(wide, narrow);
  return wide;
}

void MasterWeights::load(const std::vector<torch::Tensor>& masters) {
  const torch::NoGradGuard no_gradient;
  at::_foreach_copy_(masters_, masters);
  taken_ = true;
}

void MasterWeights::round_to_parameters() {
  const torch::NoGradGuard no_gradient;
  at::_foreach_copy_(parameters_, masters_);
}

}  // namespace nsa
