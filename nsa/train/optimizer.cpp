#include "nsa/train/optimizer.h"

#include <utility>

#include "nsa/train/schedule.h"

namespace nsa {
namespace {

torch::optim::AdamWOptions adamw_options(const OptimizerConfig& config) {
  return torch::optim::AdamWOptions(config.lr)
      .betas({config.beta1, config.beta2})
      .eps(config.eps)
      .weight_decay(config.weight_decay);
}

}  // namespace

double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> norms;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) {
      gradients.push_back(parameter.grad());
      norms.push_back(torch::linalg_vector_norm(gradients.back(), 2, std::nullopt, false, torch::kFloat64));
    }
  }
  if (gradients.empty()) {
    return 0.0;
  }
  const double norm = torch::linalg_vector_norm(torch::stack(norms), 2).item<double>();
  const double scale = max_norm / (norm + 1e-6);
  if (scale < 1.0) {
    for (auto& gradient : gradients) {
      gradient.mul_(scale);
    }
  }
  return norm;
}

Optimizer::Optimizer(std::vector<torch::Tensor> parameters, const OptimizerConfig& config)
    : parameters_(std::move(parameters)), config_(config), adamw_(parameters_, adamw_options(config)) {}

double Optimizer::step(std::int64_t step) {
  const double norm = clip_gradients(parameters_, config_.max_norm);
  static_cast<torch::optim::AdamWOptions&>(adamw_.param_groups().front().options()).lr(learning_rate(config_, step));
  adamw_.step();
  return norm;
}

}  // namespace nsa
