// Optimiser steps that the device decides: those of the host to the last bit, skipped steps and the loss scale among them; what
// cannot be decided there, or not be captured, is refused by name.
#include "nsa/train/device_decisions.h"

#include <limits>
#include <random>

#include "nsa/base/error.h"
#include "nsa/seams/refused.h"
#include "nsa/train/optimizer.h"
#include "nsa/train/precision.h"
#include "nsa/train/step_graph.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

OptimizerConfig quick_schedule() {
  OptimizerConfig config;
  config.lr = 3e-3;
  config.warmup = 4;
  config.total = 12;
  config.max_norm = 0.7;
  return config;
}

std::vector<Tensor> drawn_parameters(torch::ScalarType type) {
  torch::manual_seed(2);
  std::vector<Tensor> parameters;
  for (const std::int64_t size : {1, 7, 64, 300}) {
    parameters.push_back(
        torch::randn({size}, torch::kDouble).to(type).detach().requires_grad_(true));
  }
  return parameters;
}

// Of some steps small, of others large enough to be clipped, and in `overflows` infinite.
void set_gradients(std::vector<Tensor>& parameters,
                   std::int64_t step,
                   double scale,
                   const std::set<std::int64_t>& overflows) {
  torch::manual_seed(100 + static_cast<std::uint64_t>(step));
  const double size =
      (step % 3 == 0 ? 0.001 : 0.1) * scale;  // of which float16 holds the scaled ones
  for (Tensor& parameter : parameters) {
    Tensor gradient = torch::randn(parameter.sizes(), torch::kDouble) * size;
    parameter.mutable_grad() = gradient.to(parameter.scalar_type());
  }
  if (overflows.contains(step)) {
    parameters[1].mutable_grad()[0] = std::numeric_limits<float>::infinity();
  }
}

struct DecidedRun {
  std::vector<Tensor> parameters;
  std::vector<double> norms;
  OptimizerState state;
  double lr = 0.0;
};

DecidedRun decided_run(Precision precision,
                       bool on_device,
                       const std::set<std::int64_t>& overflows = {}) {
  constexpr std::int64_t kSteps = 14;  // past the schedule's end
  constexpr std::int64_t kFirst = 3;   // steps of the host in either case
  DecidedRun run;
  run.parameters = drawn_parameters(dtype_of(precision));
  Optimizer optimizer(run.parameters, quick_schedule(), precision, "fused");
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    if (on_device && step == kFirst + 1) optimizer.decide_on_device(kSteps - kFirst);
    const Tensor scaled = optimizer.scaled(torch::ones({}));
    set_gradients(run.parameters, step, scaled.item<double>(), overflows);
    run.norms.push_back(on_device && step > kFirst ? optimizer.step_on_device().item<double>()
                                                   : optimizer.step());
  }
  if (on_device) optimizer.decide_on_host();
  run.state = optimizer.state();
  run.lr = optimizer.applied_lr();
  return run;
}

void expect_same_bits(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(torch::equal(found[i], wanted[i])) << i;
  }
}

class Decided : public ::testing::TestWithParam<Precision> {};

TEST_P(Decided, OnTheDeviceAsOnTheHost) {
  const std::set<std::int64_t> overflows =
      scales_loss(GetParam()) ? std::set<std::int64_t>{2, 5, 6, 14} : std::set<std::int64_t>{};
  const DecidedRun host = decided_run(GetParam(), false, overflows);
  const DecidedRun device = decided_run(GetParam(), true, overflows);
  expect_same_bits(device.parameters, host.parameters);
  expect_same_bits(device.state.exp_avg, host.state.exp_avg);
  expect_same_bits(device.state.exp_avg_sq, host.state.exp_avg_sq);
  expect_same_bits(device.state.masters, host.state.masters);
  EXPECT_EQ(device.state.adam_steps, host.state.adam_steps);
  EXPECT_EQ(device.state.taken, host.state.taken);
  EXPECT_EQ(host.state.taken, 14 - static_cast<std::int64_t>(overflows.size()));
  EXPECT_EQ(device.state.scaler.scale, host.state.scaler.scale);
  EXPECT_EQ(device.state.scaler.good_steps, host.state.scaler.good_steps);
  EXPECT_EQ(device.state.scaler.skipped, host.state.scaler.skipped);
  EXPECT_EQ(device.lr, host.lr);
  for (std::size_t i = 0; i < host.norms.size(); ++i) {
    EXPECT_TRUE(host.norms[i] == device.norms[i] ||
                (std::isnan(host.norms[i]) && std::isnan(device.norms[i])))
        << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions,
                         Decided,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16));

// Long enough for the scale to grow, to reach its largest value and its smallest one.
TEST(DeviceDecisions, ScaleAsTheHostDoes) {
  LossScaler scaler;
  scaler.load({0x1p59, LossScaler::kGrowthInterval - 3, 0});
  DeviceDecisions device(torch::kCPU, {0, scaler.state()}, std::vector<double>(6000, 1.0));
  std::mt19937_64 draw(5);
  std::int64_t taken = 0;
  for (int step = 1; step <= 4500; ++step) {
    const bool finite = step <= 10 ? step < 6 || step == 7 : step > 100;
    taken += scaler.update(finite) ? 1 : 0;
    const double odd = step % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    device.decide(torch::full({}, finite ? 1.0 : odd, torch::kDouble));
    const DeviceDecisions::State state = device.read();
    ASSERT_EQ(state.taken, taken) << step;
    ASSERT_EQ(state.scaler->scale, scaler.scale()) << step;
    ASSERT_EQ(state.scaler->good_steps, scaler.state().good_steps) << step;
    ASSERT_EQ(state.scaler->skipped, scaler.skipped()) << step;
    ASSERT_EQ(device.skips().item<double>(), finite ? 0.0 : 1.0) << step;
  }
  EXPECT_EQ(scaler.scale(), LossScaler::kSmallestScale * 4);
}

TEST(DeviceDecisions, AStepBeyondItsRatesIsNoStep) {
  DeviceDecisions device(torch::kCPU, {}, {0.1, 0.2});
  for (int step = 0; step < 2; ++step) device.decide(torch::ones({}, torch::kDouble));
  EXPECT_FLOAT_EQ(device.rate().item<float>(), 0.2F);
  EXPECT_EQ(device.read().taken, 2);
  device.decide(torch::ones({}, torch::kDouble));
  EXPECT_THROW((void)device.read(), Error);
}

std::string refused(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const Refused& refusal) {
    return refusal.seam + " " + refusal.implementation + ": " + refusal.reason;
  }
  return "";
}

TEST(DeviceDecisions, WhatTheHostMustDecideIsRefused) {
  const auto ask = [](torch::ScalarType type, Precision precision, const char* implementation) {
    Optimizer optimizer(drawn_parameters(type), quick_schedule(), precision, implementation);
    return refused([&] { optimizer.decide_on_device(2); });
  };
  EXPECT_EQ(ask(torch::kFloat, Precision::fp32, "fused"), "");
  EXPECT_EQ(ask(torch::kFloat, Precision::fp32, "reference"),
            "optimizer reference: steps that the device decides: it waits for the norm of the "
            "gradients");
  EXPECT_NE(ask(torch::kDouble, Precision::fp64, "fused").find("float64"), std::string::npos);
}

TEST(DeviceDecisions, EveryParameterTakesPart) {
  std::vector<Tensor> parameters = drawn_parameters(torch::kFloat);
  Optimizer optimizer(parameters, quick_schedule(), Precision::fp32, "fused");
  set_gradients(parameters, 1, 1.0, {});
  parameters[2].mutable_grad().reset();
  optimizer.step();
  set_gradients(parameters, 2, 1.0, {});
  optimizer.step();
  EXPECT_EQ(refused([&] { optimizer.decide_on_device(2); }),
            "optimizer fused: steps that the device decides: a parameter took 1 of 2 steps");

  Optimizer other(parameters, quick_schedule(), Precision::fp32, "fused");
  other.decide_on_device(2);
  parameters[2].mutable_grad().reset();
  EXPECT_THROW((void)other.step_on_device(), Error);
}

TEST(StepGraph, IsRefusedByNameWhereItCannotBe) {
  EXPECT_EQ(refused([] { check_capturable({{"attention", "cuda"}, {"optimizer", "fused"}}); }), "");
  EXPECT_EQ(refused([] {
              check_capturable({{"optimizer", "fused"}});
            }),
            "attention reference: steps of a CUDA graph: it was never captured, wanted cuda or "
            "cuda_mma");
  EXPECT_EQ(refused([] {
              check_capturable({{"attention", "cuda_mma"}});
            }),
            "optimizer reference: steps of a CUDA graph: it waits for the host");
  EXPECT_EQ(refused([] { const StepGraph graph(torch::kCPU); }).substr(0, 27),
            "step cuda_graph: device cpu");
}

}  // namespace
}  // namespace nsa::testing
