// A whole training run in float64: data, model, loss, mean over all scored tokens of a step, clipping,
// AdamW. For models that are small; a large one is judged piece by piece from what was recorded.
// After a few steps a run in another arithmetic is another run (Adam's first step is a sign), so judge
// one step at a time, from the state recorded before it.
#pragma once

#include <vector>

#include "oracles/model/lm.h"
#include "oracles/training/data.h"
#include "oracles/training/optimizer.h"

namespace oracles {

struct RunConfig {
  LmConfig model;  // vocab_size as the data's; 256 for a text
  DataConfig data;
  TrainConfig train;
  double dropout = 0;  // of the residual branches
};

// What the ranks make of one step before the optimiser.
struct StepGradients {
  std::vector<double> losses;  // [world, accumulate]: of each rank's micro-batches
  Weights mean;  // gradient of the mean over all scored tokens, neither scaled nor clipped
};

// Throws std::invalid_argument where the parts do not fit each other or the parameters are not the
// model's.
StepGradients step_gradients(const RunConfig& config,
                             Text text,
                             std::int64_t step,
                             const Weights& parameters,
                             int threads = 0);

struct RunState {
  Weights parameters;
  AdamState moments;   // empty before the first step
  std::int64_t n = 0;  // optimiser steps taken
};

struct RunStep {
  std::vector<double> losses;  // as in StepGradients
  OptimizerStep optimizer;
};

// Step number `step` of the data, the next one of the optimiser, in place.
RunStep run_step(
    const RunConfig& config, Text text, std::int64_t step, RunState& state, int threads = 0);

}  // namespace oracles
