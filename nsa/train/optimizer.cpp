#include "nsa/train/optimizer.h"

#include <cmath>
#include <map>
#include <utility>

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>

#include "nsa/base/error.h"
#include "nsa/seams/refused.h"
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

constexpr double kClipRoom = 1e-6;  // keeps the quotient finite where all gradients are zero

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

bool is_fused(const std::string& implementation) {
  if (implementation == "fused") return true;
  if (implementation == "reference") return false;
  throw Error("seam optimizer has no implementation '" + implementation + "'");
}

}  // namespace

double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return 0.0;
  std::vector<torch::Tensor> norms;
  for (const auto& gradient : gradients) {
    norms.push_back(torch::linalg_vector_norm(gradient, 2, std::nullopt, false, torch::kFloat64));
  }
  const double norm = torch::linalg_vector_norm(torch::stack(norms), 2).item<double>();
  const double scale = max_norm / (norm + kClipRoom);
  if (scale < 1.0) {
    for (auto& gradient : gradients) gradient.mul_(scale);
  }
  return norm;
}

torch::Tensor clip_gradients_together(const std::vector<torch::Tensor>& parameters,
                                      double max_norm) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return torch::zeros({}, torch::kDouble);
  const bool is_double = gradients.front().scalar_type() == torch::kDouble;
  const auto norms = at::_foreach_norm(gradients, 2, is_double ? torch::kDouble : torch::kFloat32);
  const torch::Tensor norm = torch::linalg_vector_norm(torch::stack(norms).to(torch::kDouble), 2);
  const torch::Tensor scale = max_norm / (norm + kClipRoom);
  // A NaN scales nothing. In the gradients' type: with another one each gradient would be a launch of its own.
  at::_foreach_mul_(gradients,
                    torch::where(scale < 1.0, scale, torch::ones_like(scale))
                        .to(gradients.front().scalar_type()));
  return norm;
}

Optimizer::Optimizer(std::vector<torch::Tensor> parameters,
                     const OptimizerConfig& config,
                     Precision precision,
                     const std::string& implementation)
    : parameters_(std::move(parameters)),
      config_(config),
      fused_(is_fused(implementation)),
      schedule_([config](std::int64_t taken_step) { return learning_rate(config, taken_step); }),
      masters_(has_masters(precision) ? std::make_optional<MasterWeights>(parameters_)
                                      : std::nullopt),
      scaler_(scales_loss(precision) ? std::make_optional<LossScaler>() : std::nullopt),
      adamw_(updated(), adamw_options(config)) {}

torch::Tensor Optimizer::scaled(const torch::Tensor& loss) const {
  if (on_device_ && on_device_->scales()) return loss * on_device_->scale();
  return scaler_ ? loss * scaler_->scale() : loss;
}

double Optimizer::step() {
  TORCH_CHECK(!on_device_, "the device decides: wanted step_on_device()");
  if (masters_) masters_->take_gradients(loss_scale());
  if (fused_ && !scaler_ && !clip_) {  // everything is launched before the host looks at the norm
    const torch::Tensor norm = clip_gradients_together(updated(), config_.max_norm);
    update();
    return norm.item<double>();
  }
  const double norm = clip_    ? clip_(updated())
                      : fused_ ? clip_gradients_together(updated(), config_.max_norm).item<double>()
                               : clip_gradients(updated(), config_.max_norm);
  if (scaler_ && !scaler_->update(std::isfinite(norm))) return norm;
  update();
  return norm;
}

void Optimizer::update() {
  ++taken_;
  applied_lr_ = schedule_(taken_);
  auto& options = adamw_.param_groups().front().options();
  static_cast<torch::optim::AdamWOptions&>(options).lr(applied_lr_);
  if (fused_) {
    fused_update();
  } else {
    adamw_.step();
  }
  if (masters_) masters_->round_to_parameters();
}

// The moments stay where LibTorch's optimiser keeps them, so that a snapshot of one is read by the other.
Optimizer::FusedLists Optimizer::fused_lists() {
  FusedLists lists;
  for (const torch::Tensor& tensor : updated()) {
    if (!tensor.grad().defined()) continue;
    auto& kept = adamw_.state()[tensor.unsafeGetTensorImpl()];
    if (!kept) {
      auto fresh = std::make_unique<torch::optim::AdamWParamState>();
      fresh->step(0);
      fresh->exp_avg(torch::zeros_like(tensor));
      fresh->exp_avg_sq(torch::zeros_like(tensor));
      kept = std::move(fresh);
    }
    auto& moments = static_cast<torch::optim::AdamWParamState&>(*kept);
    lists.tensors.push_back(tensor);
    lists.gradients.push_back(tensor.grad());
    lists.exp_avgs.push_back(moments.exp_avg());
    lists.exp_avg_sqs.push_back(moments.exp_avg_sq());
    lists.moments.push_back(&moments);
  }
  return lists;
}

void Optimizer::fused_update() {
  const torch::NoGradGuard no_gradient;
  const FusedLists lists = fused_lists();
  if (lists.tensors.empty()) return;
  std::vector<torch::Tensor> steps;
  std::map<std::int64_t, torch::Tensor> step_of;  // one tensor for all that took as many steps
  for (torch::optim::AdamWParamState* moments : lists.moments) {
    moments->step(moments->step() + 1);
    torch::Tensor& step = step_of[moments->step()];
    if (!step.defined()) {
      step = torch::full({},
                         static_cast<double>(moments->step()),
                         lists.tensors.front().options().dtype(torch::kFloat32));
    }
    steps.push_back(step);
  }
  // The kernels read a rate that lies on the device as a float32: one that the host hands them is rounded alike.
  const bool is_double = lists.tensors.front().scalar_type() == torch::kDouble;
  at::_fused_adamw_(lists.tensors,
                    lists.gradients,
                    lists.exp_avgs,
                    lists.exp_avg_sqs,
                    /*max_exp_avg_sqs=*/{},
                    steps,
                    is_double ? applied_lr_ : static_cast<double>(static_cast<float>(applied_lr_)),
                    config_.beta1,
                    config_.beta2,
                    config_.weight_decay,
                    config_.eps,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
}

void Optimizer::decide_on_device(std::int64_t most_steps) {
  const auto refuse = [&](const std::string& what) {
    throw Refused("optimizer", implementation(), "steps that the device decides: " + what);
  };
  if (!fused_) refuse("it waits for the norm of the gradients");
  const torch::Tensor& first = updated().front();
  if (first.scalar_type() == torch::kDouble) {
    refuse("its kernels read the learning rate as a float32, and the parameters are float64");
  }
  for (const torch::Tensor& tensor : updated()) {
    const auto found = adamw_.state().find(tensor.unsafeGetTensorImpl());
    const std::int64_t steps =
        found == adamw_.state().end()
            ? 0
            : static_cast<torch::optim::AdamWParamState&>(*found->second).step();
    if (steps != taken_)
      refuse("a parameter took " + std::to_string(steps) + " of " + std::to_string(taken_) +
             " steps");
  }
  std::vector<double> rates;
  for (std::int64_t step = 1; step <= taken_ + most_steps; ++step) rates.push_back(schedule_(step));
  DeviceDecisions::State state;
  state.taken = taken_;
  if (scaler_) state.scaler = scaler_->state();
  on_device_.emplace(first.device(), state, rates);
}

torch::Tensor Optimizer::step_on_device() {
  TORCH_CHECK(on_device_, "the host decides: wanted step()");
  if (masters_ && on_device_->scales()) {
    masters_->take_gradients(on_device_->scale());
  } else if (masters_) {
    masters_->take_gradients(1.0);
  }
  torch::Tensor norm = clip_gradients_together(updated(), config_.max_norm);
  on_device_->decide(norm);
  device_update();
  if (masters_) masters_->round_to_parameters();
  return norm;
}

void Optimizer::device_update() {
  const torch::NoGradGuard no_gradient;
  const FusedLists lists = fused_lists();
  if (lists.tensors.size() != updated().size()) {
    throw Error("optimizer: " + std::to_string(lists.tensors.size()) + " of " +
                std::to_string(updated().size()) +
                " parameters have a gradient; a step that the device decides wants all");
  }
  at::_fused_adamw_(lists.tensors,
                    lists.gradients,
                    lists.exp_avgs,
                    lists.exp_avg_sqs,
                    /*max_exp_avg_sqs=*/{},
                    std::vector<torch::Tensor>(lists.tensors.size(), on_device_->steps()),
                    on_device_->rate(),
                    config_.beta1,
                    config_.beta2,
                    config_.weight_decay,
                    config_.eps,
                    /*amsgrad=*/false,
                    /*maximize=*/false,
                    /*grad_scale=*/{},
                    on_device_->scales() ? std::optional(on_device_->skips()) : std::nullopt);
}

void Optimizer::decide_on_host() {
  TORCH_CHECK(on_device_, "the host decides already");
  const DeviceDecisions::State state = on_device_->read();
  if (state.taken > taken_) applied_lr_ = schedule_(state.taken);
  taken_ = state.taken;
  if (state.scaler) scaler_->load(*state.scaler);
  for (auto& [tensor, kept] : adamw_.state()) {
    static_cast<torch::optim::AdamWParamState&>(*kept).step(taken_);
  }
  on_device_.reset();
}

OptimizerState Optimizer::state() {
  TORCH_CHECK(!on_device_, "the device decides: wanted decide_on_host() before");
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
