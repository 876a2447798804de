#include "nsa/train/optimizer.h"

#include <cmath>
#include <utility>

#include "nsa/train/precision.h"
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
      norms.push_back(
          torch::linalg_vector_norm(gradients.back(), 2, std::nullopt, false, torch::kFloat64));
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

Optimizer::Optimizer(std::vector<torch::Tensor> parameters,
                     const OptimizerConfig& config,
                     Precision precision)
    : parameters_(std::move(parameters)),
      config_(config),
      schedule_([config](std::int64_t taken_step) { return learning_rate(config, taken_step); }),
      masters_(has_masters(precision) ? std::make_optional<MasterWeights>(parameters_)
                                      : std::nullopt),
      scaler_(scales_loss(precision) ? std::make_optional<LossScaler>() : std::nullopt),
      adamw_(updated(), adamw_options(config)) {}

torch::Tensor Optimizer::scaled(const torch::Tensor& loss) const {
  return scaler_ ? loss * scaler_->scale() : loss;
}

double Optimizer::step() {
  if (masters_) masters_->take_gradients(loss_scale());
  const double norm = clip_gradients(updated(), config_.max_norm);
  if (scaler_ && !scaler_->update(std::isfinite(norm))) return norm;
  ++taken_;
  applied_lr_ = schedule_(taken_);
  auto& options = adamw_.param_groups().front().options();
  static_cast<torch::optim::AdamWOptions&>(options).lr(applied_lr_);
  adamw_.step();
  if (masters_) masters_->round_to_parameters();
  return norm;
}

OptimizerState Optimizer::state() {
  OptimizerState state;
  state.taken = taken_;
  if (scaler_) state.scaler = scaler_->state();
  for (const torch::Tensor& tensor : updated()) {
    const auto found = adamw_.state().find(tensor.unsafeGetTensorImpl());
    if (found == adamw_.state().end()) {
      state.adam_steps.push_back(0);
      state.exp_avg.push_back(torch::zeros_like(tensor));
      state.exp_avg_sq.push_back(torch::zeros_like(tensor));
    } else {
      const auto& moments = static_cast<const torch::optim::AdamWParamState&>(*found->second);
      state.adam_steps.push_back(moments.step());
      state.exp_avg.push_back(moments.exp_avg());
      state.exp_avg_sq.push_back(moments.exp_avg_sq());
    }
    if (masters_) state.masters.push_back(tensor);
  }
  return state;
}

void Optimizer::load(const OptimizerState& state) {
  taken_ = state.taken;
  if (scaler_) scaler_->load(state.scaler);
  if (masters_) masters_->load(state.masters);
  adamw_.state().clear();
  for (std::size_t i = 0; i < updated().size(); ++i) {
    if (state.adam_steps[i] == 0) continue;
    auto moments = std::make_unique<torch::optim::AdamWParamState>();
    moments->step(state.adam_steps[i]);
    moments->exp_avg(state.exp_avg[i].clone());
    moments->exp_avg_sq(state.exp_avg_sq[i].clone());
    adamw_.state()[updated()[i].unsafeGetTensorImpl()] = std::move(moments);
  }
}

}  // namespace nsa
