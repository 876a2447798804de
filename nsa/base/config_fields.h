// Every key of `model`, `training` and `parallel`, with its range and its sentence. Laws that tie several values together
// are in config.cpp.
#pragma once

#include <array>
#include <tuple>

#include "nsa/base/config.h"
#include "nsa/base/fields.h"

namespace nsa {

// Upper bounds far above every model that exists; their products stay below 2^63.
inline constexpr double kMaxWidth = 1 << 16;
inline constexpr double kMaxHeads = 1 << 10;
inline constexpr double kMaxLayers = 1 << 10;
inline constexpr double kMaxLength = 1 << 24;
inline constexpr double kMaxVocabulary = 1 << 20;
inline constexpr double kMaxSteps = 1 << 30;
inline constexpr double kMaxBatch = 1 << 16;
inline constexpr double kMaxRanks = 256;  // one host
inline constexpr double kMaxBucketMb = 4096.0;
inline constexpr double kHuge = 1e12;

inline constexpr auto kModelFields = [] {
  using M = ModelConfig;
  return std::tuple{
      ByHand{
          "use", "name", "none", "a file of configs/models whose values the other keys override"},
      Field{"name", &M::name, "what reports call it", {}, {.initial = "model.use"}},
      Field{"dim", &M::dim, "width of the residual stream", within(1, kMaxWidth)},
      Field{"n_layers", &M::n_layers, "blocks", within(1, kMaxLayers)},
      Field{"n_heads", &M::n_heads, "query heads, a multiple of n_kv_groups", within(1, kMaxHeads)},
      Field{"n_kv_groups", &M::n_kv_groups, "key/value groups", within(1, kMaxHeads)},
      Field{"d_k", &M::d_k, "width of queries and keys, even", within(2, kMaxHeads)},
      Field{"d_v", &M::d_v, "width of values", within(1, kMaxHeads)},
      Field{"l", &M::l, "tokens of a compression block, a multiple of d", within(1, kMaxWidth)},
      Field{"d", &M::d, "stride of the compression blocks", within(1, kMaxWidth)},
      Field{
          "l_sel", &M::l_sel, "tokens of a selection block, a multiple of d", within(1, kMaxWidth)},
      Field{"n_sel", &M::n_sel, "blocks selected, the forced ones included", within(1, kMaxWidth)},
      Field{"w", &M::w, "tokens of the window, the query's own included", within(1, kMaxLength)},
      Field{"init_blocks",
            &M::init_blocks,
            "first blocks that are always selected",
            within(0, kMaxWidth)},
      Field{"local_blocks",
            &M::local_blocks,
            "last blocks that are always selected",
            within(1, kMaxWidth)},
      Field{"vocab_size",
            &M::vocab_size,
            "at least 256 for text, whose tokens are bytes",
            within(2, kMaxVocabulary)},
      Field{"mlp_ratio", &M::mlp_ratio, "hidden width of the MLP over dim", within(1, 64)},
      Field{"rope_base", &M::rope_base, "base of the rotary angles", above(1, kHuge)},
      Field{"rope_scale", &M::rope_scale, "positions are divided by it", above(0, kHuge)},
      Field{"gate", &M::gate, "how the branches are weighed: group_softmax or head_sigmoid"},
      Field{"gate_temp", &M::gate_temp, "temperature of the gate's softmax", above(0, kHuge)},
      Field{"gate_hidden",
            &M::gate_hidden,
            "hidden width of the gate; 0: max(1, d_k/2)",
            within(0, kMaxWidth)},
      Field{"phi", &M::phi, "how a compression block becomes a token: avg, conv or mlp"},
      Field{"eq9", &M::eq9, "how scores reach selection blocks: fractional or overlap"}};
}();

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
      Part{"data", &T::data, kDataFields, "where tokens come from", {.initial = "default text"}},
      Part{"optimizer", &T::optimizer, kOptimizerFields, "AdamW with warm-up and cosine"}};
}();

inline constexpr std::array kBackends = {"auto", "gloo", "nccl"};
inline constexpr std::array kCompressions = {"none", "bf16"};
inline constexpr std::array kPlannedCompressions = {"fp16", "powersgd"};
inline constexpr std::array kCheckpointModes = {"functional", "nested"};

inline constexpr auto kDdpFields = [] {
  using P = ParallelConfig;
  return std::tuple{
      Field{"static_graph",
            &P::static_graph,
            "every step uses the same parameters the same number of times"},
      Field{
          "find_unused", &P::find_unused, "parameters that the loss does not reach are looked for"},
      Field{"gradient_as_bucket_view",
            &P::gradient_as_bucket_view,
            "gradients are views into the buckets"},
      Field{"bucket_mb", &P::bucket_mb, "size of a gradient bucket in MiB", above(0, kMaxBucketMb)},
      Field{"compress",
            &P::compress,
            "what travels between ranks: none or bf16",
            one_of(kCompressions, kPlannedCompressions)}};
}();

inline constexpr auto kCheckpointFields = [] {
  using P = ParallelConfig;
  return std::tuple{
      ByHand{"layers",
             "list of integers",
             "none",
             "none, all, or layers that are computed again in the backward"},
      Field{"mode", &P::checkpoint_mode, "functional or nested", one_of(kCheckpointModes)},
      Field{"keep_blocks",
            &P::checkpoint_keep_blocks,
            "the blocks that were chosen are chosen again"}};
}();

inline constexpr auto kParallelFields = [] {
  using P = ParallelConfig;
  return std::tuple{
      Field{"ranks", &P::ranks, "processes", within(1, kMaxRanks)},
      Field{"device", &P::device, "cpu or cuda"},
      Field{"backend", &P::backend, "gloo, nccl, or auto: by device", one_of(kBackends)},
      Part{"ddp", kSame, kDdpFields, "data parallelism"},
      Part{"checkpoint", kSame, kCheckpointFields, "activation checkpointing"}};
}();

}  // namespace nsa
