// Every key of `training`, with its range and its sentence. Laws that tie several values together are in config.cpp.
#pragma once

#include <tuple>

#include "nsa/base/config.h"
#include "nsa/base/config_bounds.h"
#include "nsa/base/fields.h"

namespace nsa {

inline constexpr auto kDataFields = [] {
  using D = DataConfig;
  return std::tuple{
      Field{"source",
            &D::source,
            "text; uniform: noise; long_range: each token repeats the one `distance` back, or is "
            "noise"},
      Field{"distance", &D::distance, "of long_range, in tokens"},
      Field{"sharpness",
            &D::sharpness,
            "of long_range: probability of the repeated token",
            within(0, 1)},
      Field{"loss_mask",
            &D::loss_mask,
            "of kind training. none: all positions that predict are scored; ragged: the first of "
            "each sequence, a drawn number, and the loss is the sum over all that are scored in "
            "the step, over their number",
            {},
            {.sparse = true}},
      Field{"replicated",
            &D::replicated,
            "every rank gets the sequences of rank 0, as the ranks of tensor parallelism do",
            {},
            {.sparse = true}},
      Field{"packed",
            &D::packed,
            "of kind training: documents in each sequence, of drawn lengths. Each is attended to "
            "as a sequence of its own, and its last token is not scored",
            within(1, kMaxLength),
            {.sparse = true}},
      Field{"text",
            &D::as_written,
            "files and folders, relative to this file",
            {},
            {.type = "list of paths", .initial = "own sources"}}};
}();

inline constexpr auto kOptimizerFields = [] {
  using O = OptimizerConfig;
  return std::tuple{
      Field{"lr", &O::lr, "learning rate after the warm-up", within(0, kHuge)},
      Field{"beta1", &O::beta1, "of the first moment", within(0, 1)},
      Field{"beta2", &O::beta2, "of the second moment", within(0, 1)},
      Field{"eps", &O::eps, "added to the root of the second moment", within(0, kHuge)},
      Field{"weight_decay", &O::weight_decay, "decoupled, on every parameter", within(0, kHuge)},
      Field{"max_norm",
            &O::max_norm,
            "gradients are clipped to this global L2 norm",
            above(0, kHuge)},
      Field{"warmup", &O::warmup, "optimiser steps of linear warm-up", within(0, kMaxSteps)},
      Field{"total", &O::total, "optimiser steps until the cosine is zero", within(1, kMaxSteps)}};
}();

inline constexpr auto kTrainingFields = [] {
  using T = TrainingConfig;
  return std::tuple{
      Field{"steps", &T::steps, "optimiser steps, counted from 1", within(1, kMaxSteps)},
      Field{"batch_size", &T::batch_size, "sequences a rank and micro-batch", within(1, kMaxBatch)},
      Field{"seq_len", &T::seq_len, "tokens of a sequence", within(1, kMaxLength)},
      Field{"accumulate", &T::accumulate, "micro-batches an optimiser step", within(1, kMaxBatch)},
      Field{"precision",
            &T::precision,
            "fp64, fp32; bf16 or fp16 with float32 masters, or bf16_pure, fp16_pure without; "
            "bf16_autocast: float32 weights, the forward under autocast"},
      Field{"reaches_floor",
            &T::reaches_floor,
            "judged by loss_falls: the loss shall end at the floor of its source"},
      Field{"cuda_graph",
            &T::cuda_graph,
            "of kind throughput on cuda: the third step is captured as a CUDA graph, and it and "
            "all later ones are launched as that",
            {},
            {.sparse = true}},
      Part{"data", &T::data, kDataFields, "where tokens come from", {.initial = "default text"}},
      Part{"optimizer", &T::optimizer, kOptimizerFields, "AdamW with warm-up and cosine"}};
}();

}  // namespace nsa
