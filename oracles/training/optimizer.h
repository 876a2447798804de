// One optimiser step (golden README, "Training"): learning rate, clipping by the global norm, AdamW
// with decoupled weight decay on every parameter. Steps count from 1: step n is the README's
// k = n - 1. Plain values; gradients and parameters by the same names.
#pragma once

#include <cstdint>

#include "oracles/weights.h"

namespace oracles {

struct TrainConfig {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double max_norm = 0;
  std::int64_t warmup = 0;  // steps of the linear rise; 0: none
  std::int64_t total = 0;   // steps in all; at least warmup
};

// Throws std::invalid_argument that names the value found and what was wanted.
void validate(const TrainConfig& config);

// lr * n / warmup up to step n = `warmup`, then lr * (1 + cos(pi (n - 1 - warmup) / (total - warmup))) / 2
// up to step `total`, then 0. Throws std::invalid_argument where `step` is below 1. REQUIRES: a valid
// config.
double learning_rate(const TrainConfig& config, std::int64_t step);

// Square root of the sum of all squares, in the order of the names.
double global_norm(const Weights& gradients);

// The factor for every gradient: min(1, max_norm / (norm + 1e-6)).
double clip_factor(double norm, double max_norm);

// Both moments of every parameter, by name; empty before the first step.
struct AdamState {
  Weights m;
  Weights v;
};

// Step number `step` with learning rate `rate`, in place:
//   p = p (1 - rate * weight_decay); m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
//   p = p - rate * (m / (1 - b1^n)) / (sqrt(v / (1 - b2^n)) + eps).
// Throws std::invalid_argument where a gradient or a moment is missing or misshapen.
void adamw_step(const TrainConfig& config,
                std::int64_t step,
                double rate,
                const Weights& gradients,
                Weights& parameters,
                AdamState& state);

struct OptimizerStep {
  double grad_norm = 0;  // before clipping
  double rate = 0;       // learning rate used
};

// The three together: clip, then AdamW at the learning rate of step number `step`.
OptimizerStep optimizer_step(const TrainConfig& config,
                             std::int64_t step,
                             Weights gradients,
                             Weights& parameters,
                             AdamState& state);

}  // namespace oracles
