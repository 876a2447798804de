#include "nsa/train/device_decisions.h"

#include <string>

#include "nsa/base/error.h"

namespace nsa {
namespace {

torch::Tensor integer_on(const torch::Device& device, std::int64_t value) {
  return torch::full({}, value, torch::TensorOptions().dtype(torch::kLong).device(device));
}

torch::Tensor number_on(const torch::Device& device, double value) {
  return torch::full({}, value, torch::TensorOptions().dtype(torch::kFloat).device(device));
}

}  // namespace

DeviceDecisions::DeviceDecisions(const torch::Device& device,
                                 const State& state,
                                 const std::vector<double>& rates)
    : scales_(state.scaler.has_value()),
      rates_(torch::tensor(rates, torch::kFloat).to(device)),
      made_(integer_on(device, state.taken)),
      taken_(integer_on(device, state.taken)),
      steps_(number_on(device, static_cast<double>(state.taken))),
      rate_(torch::zeros({1}, rates_.options())) {
  const LossScaler::State scaler = state.scaler.value_or(LossScaler::State{.scale = 1.0});
  scale_ = number_on(device, scaler.scale);
  good_ = integer_on(device, scaler.good_steps);
  skipped_ = integer_on(device, scaler.skipped);
  skips_ = number_on(device, 0.0);
}

// Constants are arguments of the launches, never tensors of the host: those would be waited for.
void DeviceDecisions::decide(const torch::Tensor& norm) {
  const torch::NoGradGuard no_gradient;
  made_.add_(1);
  if (scales_) {
    const torch::Tensor finite = torch::isfinite(norm);
    // LossScaler::update(), both ways, and of each quantity the one that holds.
    const torch::Tensor good = good_ + 1;
    const torch::Tensor grows = finite.logical_and(good.eq(LossScaler::kGrowthInterval));
    const torch::Tensor grown = (scale_ * 2.0).clamp_max(LossScaler::kLargestScale);
    const torch::Tensor halved = (scale_ / 2.0).clamp_min(LossScaler::kSmallestScale);
    scale_.copy_(torch::where(finite, torch::where(grows, grown, scale_), halved));
    good_.copy_(good * finite.logical_and(grows.logical_not()));
    skipped_.add_(finite.logical_not());
    skips_.copy_(finite.logical_not());
    taken_.add_(finite);
  } else {
    taken_.add_(1);
  }
  steps_.copy_(taken_);
  const torch::Tensor place = (taken_ - 1).clamp(0, rates_.size(0) - 1);
  rate_.copy_(rates_.index_select(0, place.unsqueeze(0)));
}

DeviceDecisions::State DeviceDecisions::read() const {
  if (made_.item<std::int64_t>() > rates_.size(0)) {
    throw Error("optimizer: made " + std::to_string(made_.item<std::int64_t>()) +
                " steps, had learning rates of " + std::to_string(rates_.size(0)));
  }
  State state;
  state.taken = taken_.item<std::int64_t>();
  if (scales_) {
    state.scaler = {
        scale_.item<double>(), good_.item<std::int64_t>(), skipped_.item<std::int64_t>()};
  }
  return state;
}

}  // namespace nsa
