// Training in pure low precision. Seen: weights kept in bf16 or fp16, whose updates of less than half an ulp vanish; AdamW in
// fp16, where an eps of 1e-8 is zero and so is the second moment.
#include <cmath>
#include <memory>
#include <utility>

#include "harness/faults/faults.h"
#include "nsa/train/schedule.h"

namespace harness {
namespace {

using torch::Tensor;

// Strength is the share of the parameters, the first always among them.
bool takes(const FaultRequest& request, std::size_t parameter) {
  const auto index = static_cast<std::int64_t>(parameter);
  return index == 0 || draw_unit(request.seed, "parameter", index) < request.strength;
}

// ---- fp16_params, bf16_params --------------------------------------------------------------------

void round_parameters(FaultContext& context, torch::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const auto parameters = context.model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!takes(context.request, i)) continue;
    Tensor parameter = parameters[i];
    const Tensor rounded = parameter.to(type).to(parameter.scalar_type());
    if (rounded.equal(parameter)) continue;
    context.fired();
    parameter.copy_(rounded);
  }
}

template <torch::ScalarType kType>
void install_rounded(FaultContext& context) {
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, &context](std::int64_t step) {
    const double norm = inner(step);
    if (context.holds_now()) round_parameters(context, kType);
    return norm;
  };
}

// ---- adam_eps_underflow --------------------------------------------------------------------------

struct Moments {  // fp16
  Tensor first;
  Tensor second;
};

Tensor next_moment(const Tensor& moment, const Tensor& value, double beta) {
  const Tensor share = value * (1.0 - beta);
  return moment.defined() ? moment * beta + share : share;
}

void take_gradient(const nsa::OptimizerConfig& config, const Tensor& gradient, Moments& moments) {
  const Tensor half = gradient.to(torch::kHalf);
  moments.first = next_moment(moments.first, half, config.beta1);
  moments.second = next_moment(moments.second, half * half, config.beta2);
}

// The update of AdamW (arXiv 1711.05101) with everything but the parameter in fp16.
Tensor half_step(const nsa::OptimizerConfig& config,
                 std::int64_t step,
                 const Tensor& parameter,
                 const Moments& moments) {
  const double lr = nsa::learning_rate(config, step);
  const auto n = static_cast<double>(step);
  const Tensor eps = torch::full({}, config.eps, moments.first.options());
  const Tensor mean = moments.first / (1.0 - std::pow(config.beta1, n));
  const Tensor root = (moments.second / (1.0 - std::pow(config.beta2, n))).sqrt() + eps;
  return parameter * (1.0 - lr * config.weight_decay) -
         (mean / root).to(parameter.scalar_type()) * lr;
}

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

double step_in_half(FaultContext& context,
                    std::vector<Moments>& moments,
                    const std::function<double(std::int64_t)>& inner,
                    std::int64_t step) {
  const auto& config = context.session.the_case().scenario.training.optimizer;
  auto parameters = context.model->parameters();
  const std::vector<Tensor> before = copies(parameters);
  const double norm = inner(step);  // clips the gradients in place
  const torch::NoGradGuard no_grad;
  moments.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!takes(context.request, i) || !parameters[i].grad().defined()) continue;
    take_gradient(config, parameters[i].grad(), moments[i]);
    if (!context.holds_now()) continue;
    const Tensor after = half_step(config, step, before[i], moments[i]);
    if (!after.isfinite().all().item<bool>()) context.fired();
    parameters[i].copy_(after);
  }
  return norm;
}

void install_adam(FaultContext& context) {
  auto& optimizer = context.needed_training().seams.optimizer;
  const auto moments = std::make_shared<std::vector<Moments>>();
  optimizer = [inner = optimizer, moments, &context](std::int64_t step) {
    return step_in_half(context, *moments, inner, step);
  };
}

const std::vector<std::string> kStrengthFromStep = {"step", "strength"};

}  // namespace

Faults faults_of_low_precision() {
  return {{"fp16_params",
           "parameters are kept in fp16",
           kStrengthFromStep,
           install_rounded<torch::kHalf>},
          {"bf16_params",
           "parameters are kept in bf16",
           kStrengthFromStep,
           install_rounded<torch::kBFloat16>},
          {"adam_eps_underflow",
           "AdamW runs in fp16, where its eps is zero",
           kStrengthFromStep,
           install_adam}};
}

}  // namespace harness
