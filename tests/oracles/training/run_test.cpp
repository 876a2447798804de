// A whole run: how sequences are shared out among ranks, micro-batches and rows changes nothing, and
// the parts agree with each other.
#include "oracles/training/run.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "oracles/training/accumulate.h"
#include "oracles/training/judge_adamw.h"
#include "tests/oracles/golden.h"
#include "tests/oracles/model/random_lm.h"

namespace oracles::testing {
namespace {

RunConfig config_of(const RandomLm& lm,
                    std::int64_t world,
                    std::int64_t accumulate,
                    std::int64_t batch_size) {
  RunConfig c;
  c.model = lm.config;
  c.data = {.source = Source::uniform,
            .seed = 3,
            .accumulate = accumulate,
            .world = world,
            .batch_size = batch_size,
            .seq_len = 14,
            .vocab_size = lm.config.vocab_size};
  c.train = {.lr = 0.01, .weight_decay = 0.1, .max_norm = 0.5, .warmup = 2, .total = 10};
  return c;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Eight sequences a step: eight ranks, eight micro-batches, one batch of eight, and 2 of each.
TEST(Runs, SharingOutSequencesChangesNothing) {
  const RandomLm lm(40);
  RunState whole{lm.parameters, {}, 0};
  const RunConfig joint = config_of(lm, 1, 1, 8);
  std::vector<RunStep> steps;
  for (std::int64_t step = 1; step <= 3; ++step) {
    steps.push_back(run_step(joint, {}, step, whole, 1));
  }
  for (const auto& [world, accumulate] :
       {std::pair<std::int64_t, std::int64_t>{8, 1}, {1, 8}, {2, 2}}) {
    RunState state{lm.parameters, {}, 0};
    const RunConfig config = config_of(lm, world, accumulate, 8 / world / accumulate);
    for (std::int64_t step = 1; step <= 3; ++step) {
      const RunStep done = run_step(config, {}, step, state, 1);
      EXPECT_EQ(done.losses.size(), static_cast<std::size_t>(world * accumulate));
      EXPECT_NEAR(mean_of(done.losses), steps[step - 1].losses[0], 1e-12);
      EXPECT_NEAR(done.optimizer.grad_norm / steps[step - 1].optimizer.grad_norm, 1, 1e-10);
      EXPECT_EQ(done.optimizer.rate, steps[step - 1].optimizer.rate);
    }
    for (const auto& [name, parameter] : whole.parameters) {
      // Adam divides by the gradient's own size: where that is nothing but rounding, so is the step.
      EXPECT_LE(relative_error(state.parameters.at(name), parameter, 1), 1e-4) << name;
    }
  }
}

// The same eight sequences with a ragged mask: the mean is over all their scored tokens, however they are shared out.
TEST(Runs, SharingOutRaggedSequencesChangesNothing) {
  const RandomLm lm(40);
  RunConfig joint = config_of(lm, 1, 1, 8);
  joint.data.ragged = true;
  const StepGradients whole = step_gradients(joint, {}, 2, lm.parameters, 1);
  for (const auto& [world, accumulate] :
       {std::pair<std::int64_t, std::int64_t>{8, 1}, {1, 8}, {2, 2}}) {
    RunConfig config = config_of(lm, world, accumulate, 8 / world / accumulate);
    config.data.ragged = true;
    const StepGradients shared = step_gradients(config, {}, 2, lm.parameters, 1);
    for (const auto& [name, mean] : whole.mean) {
      EXPECT_LE(relative_error(shared.mean.at(name), mean, 1), 1e-10) << name;
    }
  }
  joint.dropout = 0.3;
  RunConfig dropped = config_of(lm, 2, 2, 2);
  dropped.data.ragged = true;
  dropped.dropout = 0.3;
  const StepGradients one = step_gradients(joint, {}, 2, lm.parameters, 1);
  const StepGradients four = step_gradients(dropped, {}, 2, lm.parameters, 1);
  for (const auto& [name, mean] : one.mean) {
    EXPECT_LE(relative_error(four.mean.at(name), mean, 1), 1e-10) << name;
  }
  EXPECT_GT(relative_error(one.mean.at("lm_head.weight"), whole.mean.at("lm_head.weight"), 1),
            0.01);
  joint.dropout = 0;
  joint.data.ragged = false;
  const StepGradients all = step_gradients(joint, {}, 2, lm.parameters, 1);
  EXPECT_GT(relative_error(all.mean.at("lm_head.weight"), whole.mean.at("lm_head.weight"), 1),
            0.01);
}

// The same with packed documents: which documents a sequence holds follows from the sequence alone.
TEST(Runs, SharingOutPackedSequencesChangesNothing) {
  const RandomLm lm(40);
  RunConfig joint = config_of(lm, 1, 1, 4);
  const StepGradients plain = step_gradients(joint, {}, 2, lm.parameters, 1);
  joint.data.documents = 3;
  const StepGradients whole = step_gradients(joint, {}, 2, lm.parameters, 1);
  RunConfig config = config_of(lm, 2, 2, 1);
  config.data.documents = 3;
  const StepGradients shared = step_gradients(config, {}, 2, lm.parameters, 1);
  for (const auto& [name, mean] : whole.mean) {
    EXPECT_LE(relative_error(shared.mean.at(name), mean, 1), 1e-10) << name;
  }
  EXPECT_GT(relative_error(plain.mean.at("lm_head.weight"), whole.mean.at("lm_head.weight"), 1),
            0.01);
}

// The whole run and the judgement of single steps are two ways to the same numbers.
TEST(Runs, EveryStepIsJudgedRight) {
  const RandomLm lm(41);
  const RunConfig config = config_of(lm, 2, 3, 1);
  RunState state{lm.parameters, {}, 0};
  for (std::int64_t step = 1; step <= 3; ++step) {
    const RunState before = state;
    const StepGradients gradients = step_gradients(config, {}, step, before.parameters, 1);
    const RunStep done = run_step(config, {}, step, state, 1);
    UpdateSettings settings = settings_of(config.train, state.n);
    settings.factor = clip_factor(done.optimizer.grad_norm, config.train.max_norm);
    settings.number = Number::f64;
    for (const auto& [name, after] : state.parameters) {
      const auto view = [&, &key = name](const Weights& weights) {
        return weights.empty() ? Numbers() : Numbers::of(weights.at(key).data);
      };
      const UpdateRecord record{name,
                                view(before.parameters),
                                view(before.moments.m),
                                view(before.moments.v),
                                view(gradients.mean),
                                Numbers::of(after.data),
                                view(state.moments.m),
                                view(state.moments.v)};
      EXPECT_TRUE(judge_update(record, settings, 1).fits()) << name;
    }
  }
  EXPECT_EQ(state.n, 3);
}

// The mean over all is that of each micro-batch's own gradient.
TEST(Runs, TheMeanIsOfAllMicroBatchesAndRanks) {
  const RandomLm lm(42);
  const RunConfig config = config_of(lm, 2, 2, 1);
  const StepGradients gradients = step_gradients(config, {}, 5, lm.parameters, 1);
  std::vector<LmPass> passes;
  for (std::int64_t part = 0; part < 4; ++part) {
    passes.push_back(language_model_with_gradients(
        config.model, lm.parameters, batch_tokens(config.data, {5, part % 2, part / 2})));
    EXPECT_EQ(gradients.losses[part], passes.back().result.loss);
  }
  for (const auto& [name, mean] : gradients.mean) {
    AccumulateRecord record;
    record.name = name;
    record.world = record.accumulate = 2;
    for (const LmPass& pass : passes) {
      record.parts.push_back(Numbers::of(pass.gradients.at(name).data));
    }
    record.result = Numbers::of(mean.data);
    record.number = Number::f64;
    EXPECT_TRUE(judge_accumulated(record, 1).fits()) << name;
  }
}

TEST(Runs, RefuseWhatDoesNotFit) {
  const RandomLm lm(43);
  RunConfig config = config_of(lm, 1, 1, 1);
  config.data.vocab_size = 1000;
  EXPECT_THROW((void)step_gradients(config, {}, 1, lm.parameters, 1), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
