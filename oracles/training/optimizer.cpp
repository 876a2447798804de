#include "oracles/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

namespace oracles {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw std::invalid_argument("TrainConfig: " + message);
  }
}

const Tensor& fitting(const Weights& tensors,
                      const std::string& name,
                      const Shape& shape,
                      const std::string& what) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw std::invalid_argument(what + " of " + name + " is missing");
  }
  require_shape(found->second, shape, what + " of " + name);
  return found->second;
}

// Zeros for parameters that have no moment yet, before the first step only.
Tensor& moment(Weights& moments, const std::string& name, const Shape& shape, std::int64_t step) {
  if (step == 1 && moments.count(name) == 0) {
    moments[name] = zeros(shape);
  }
  (void)fitting(moments, name, shape, "moment");
  return moments[name];
}

}  // namespace

void validate(const TrainConfig& c) {
  for (const auto& [name, value] : {std::pair("lr", c.lr),
                                    std::pair("eps", c.eps),
                                    std::pair("weight_decay", c.weight_decay)}) {
    require(std::isfinite(value) && value >= 0,
            std::string(name) + " = " + std::to_string(value) + ", wanted 0 or more");
  }
  for (const auto& [name, value] : {std::pair("beta1", c.beta1), std::pair("beta2", c.beta2)}) {
    require(value >= 0 && value < 1,
            std::string(name) + " = " + std::to_string(value) + ", wanted 0 to below 1");
  }
  require(c.max_norm > 0, "max_norm = " + std::to_string(c.max_norm) + ", wanted above 0");
  require(c.warmup >= 0 && c.total >= 1 && c.warmup <= c.total,
          "warmup = " + std::to_string(c.warmup) +
              ", wanted 0 to total = " + std::to_string(c.total) + ", which is at least 1");
}

double learning_rate(const TrainConfig& config, std::int64_t step) {
  if (step < 1) {
    throw std::invalid_argument("step " + std::to_string(step) + ", wanted 1 or more");
  }
  if (step <= config.warmup) {
    return config.lr * static_cast<double>(step) / static_cast<double>(config.warmup);
  }
  if (step > config.total) {
    return 0;
  }
  const double done = static_cast<double>(step - 1 - config.warmup) /
                      static_cast<double>(config.total - config.warmup);
  return config.lr * (1 + std::cos(std::numbers::pi * done)) / 2;
}

double global_norm(const Weights& gradients) {
  double sum = 0;
  for (const auto& [name, gradient] : gradients) {
    for (const double g : gradient.data) {
      sum += g * g;
    }
  }
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

void adamw_step(const TrainConfig& config,
                std::int64_t step,
                double rate,
                const Weights& gradients,
                Weights& parameters,
                AdamState& state) {
  const double first = 1 - std::pow(config.beta1, static_cast<double>(step));
  const double second = 1 - std::pow(config.beta2, static_cast<double>(step));
  for (auto& [name, parameter] : parameters) {
    const Tensor& gradient = fitting(gradients, name, parameter.shape, "gradient");
    Tensor& m = moment(state.m, name, parameter.shape, step);
    Tensor& v = moment(state.v, name, parameter.shape, step);
    for (std::size_t i = 0; i < parameter.data.size(); ++i) {
      const double g = gradient.data[i];
      m.data[i] = config.beta1 * m.data[i] + (1 - config.beta1) * g;
      v.data[i] = config.beta2 * v.data[i] + (1 - config.beta2) * g * g;
      const double decayed = parameter.data[i] * (1 - rate * config.weight_decay);
      const double direction = (m.data[i] / first) / (std::sqrt(v.data[i] / second) + config.eps);
      parameter.data[i] = decayed - rate * direction;
    }
  }
}

OptimizerStep optimizer_step(const TrainConfig& config,
                             std::int64_t step,
                             Weights gradients,
                             Weights& parameters,
                             AdamState& state) {
  validate(config);
  const OptimizerStep done{global_norm(gradients), learning_rate(config, step)};
  const double factor = clip_factor(done.grad_norm, config.max_norm);
  for (auto& [name, gradient] : gradients) {
    for (double& g : gradient.data) {
      g *= factor;
    }
  }
  adamw_step(config, step, done.rate, gradients, parameters, state);
  return done;
}

}  // namespace oracles
