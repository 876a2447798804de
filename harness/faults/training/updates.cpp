// Updates that are wrong on every rank alike, so that no rank differs from another: another formula of AdamW, gradients
// that are unscaled a second time, a loss scale that grows without its interval.
#include <cmath>
#include <utility>

#include "harness/faults/faults.h"
#include "nsa/train/precision.h"

namespace harness {
namespace {

using torch::Tensor;

const nsa::OptimizerConfig& optimizer_config(const FaultContext& context) {
  return context.session.the_case().scenario.training.optimizer;
}

// ---- adamw_wrong ---------------------------------------------------------------------------------

const std::vector<std::string> kFormulas = {
    "betas_swapped", "bias_correction_missing", "decay_in_gradient"};

// AdamW (arXiv 1711.05101) with one of its terms wrong.
class WrongAdamw {
 public:
  WrongAdamw(const nsa::OptimizerConfig& config, const std::string& form, double lr)
      : config_(config), form_(form), lr_(lr) {
    if (form_ == "betas_swapped") std::swap(config_.beta1, config_.beta2);
  }

  // Parameter and moments before the step become those after it; n counts this step.
  void step(Tensor& p, Tensor& m, Tensor& v, Tensor gradient, std::int64_t n) const {
    if (form_ == "decay_in_gradient") {
      gradient = gradient + config_.weight_decay * p;
    } else {
      p = p * (1.0 - lr_ * config_.weight_decay);
    }
    m = config_.beta1 * m + (1.0 - config_.beta1) * gradient;
    v = config_.beta2 * v + (1.0 - config_.beta2) * gradient * gradient;
    const double m_share = correction(config_.beta1, n);
    const double v_share = correction(config_.beta2, n);
    p = p - lr_ * (m / m_share) / ((v / v_share).sqrt() + config_.eps);
  }

 private:
  [[nodiscard]] double correction(double beta, std::int64_t n) const {
    return form_ == "bias_correction_missing" ? 1.0 : 1.0 - std::pow(beta, static_cast<double>(n));
  }

  nsa::OptimizerConfig config_;
  std::string form_;
  double lr_;
};

std::vector<Tensor> clones(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

// The right step clips the gradients and moves all counters; then the state is that of the wrong one.
double step_wrongly(FaultContext& context,
                    const std::string& form,
                    const std::function<double(std::int64_t)>& inner,
                    std::int64_t step) {
  nsa::Optimizer& optimizer = context.needed_training().optimizer;
  const std::vector<Tensor> updated = optimizer.updated();
  const std::vector<Tensor> p = clones(updated);
  const nsa::OptimizerState before = optimizer.state();
  const std::vector<Tensor> m = clones(before.exp_avg);
  const std::vector<Tensor> v = clones(before.exp_avg_sq);
  const double norm = inner(step);
  if (!context.holds_now()) return norm;
  const torch::NoGradGuard no_graph;
  const WrongAdamw wrong(optimizer_config(context), form, optimizer.applied_lr());
  nsa::OptimizerState after = optimizer.state();
  for (std::size_t i = 0; i < updated.size(); ++i) {
    if (!updated[i].grad().defined()) continue;
    Tensor moved = p[i];
    Tensor first = m[i];
    Tensor second = v[i];
    wrong.step(moved, first, second, updated[i].grad(), after.adam_steps[i]);
    if (!moved.equal(updated[i])) context.fired();
    Tensor(updated[i]).copy_(moved);
    after.exp_avg[i] = first;
    after.exp_avg_sq[i] = second;
  }
  optimizer.load(after);
  return norm;
}

void install_adamw(FaultContext& context) {
  if (!context.needed_training().optimizer.state().masters.empty()) {
    context.lacks("found 'adamw_wrong', wanted a scenario in float32 or float64");
    return;
  }
  const std::string form = fault_form(context.request, kFormulas);
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, form, &context](std::int64_t step) {
    return step_wrongly(context, form, inner, step);
  };
}

// ---- scaler_wrong --------------------------------------------------------------------------------

const std::vector<std::string> kScalers = {"unscaled_twice", "grows_each_step"};

// Somebody unscales to clip, and the step unscales again.
void unscale_twice(FaultContext& context) {
  context.needed_training().optimizer.clip() = [&context](const std::vector<Tensor>& updated) {
    const double norm = nsa::clip_gradients(updated, optimizer_config(context).max_norm);
    const double scale = context.needed_training().optimizer.loss_scale();
    if (!context.holds_now() || scale == 1.0) return norm;
    const torch::NoGradGuard no_graph;
    for (const Tensor& tensor : updated) {
      if (tensor.grad().defined()) tensor.grad().div_(scale);
    }
    context.fired();
    return norm;
  };
}

void grow_each_step(FaultContext& context) {
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, &context](std::int64_t step) {
    nsa::Optimizer& real = context.needed_training().optimizer;
    const std::int64_t skipped = real.skipped();
    const double norm = inner(step);
    if (!context.holds_now() || real.skipped() > skipped) return norm;
    nsa::OptimizerState state = real.state();
    state.scaler.scale *= 2.0;
    real.load(state);
    context.fired();
    return norm;
  };
}

void install_scaler(FaultContext& context) {
  if (!nsa::scales_loss(context.session.the_case().scenario.training.precision)) {
    context.lacks("found 'scaler_wrong', wanted a scenario in fp16, whose loss is scaled");
    return;
  }
  if (fault_form(context.request, kScalers) == "unscaled_twice") {
    unscale_twice(context);
  } else {
    grow_each_step(context);
  }
}

}  // namespace

Faults faults_of_updates() {
  return {{"adamw_wrong",
           "every rank takes its steps by another formula than AdamW's",
           {"step", "form"},
           install_adamw,
           kFormulas},
          {"scaler_wrong",
           "gradients are unscaled twice, or the loss scale grows after every step",
           {"step", "form"},
           install_scaler,
           kScalers}};
}

}  // namespace harness
