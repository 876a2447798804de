// Every key of `parallel`, with its range and its sentence. Laws that tie several values together are in config.cpp.
#pragma once

#include <array>
#include <tuple>

#include "nsa/base/config.h"
#include "nsa/base/config_bounds.h"
#include "nsa/base/fields.h"

namespace nsa {

inline constexpr std::array kBackends = {"auto", "gloo", "nccl"};
inline constexpr std::array kCompressions = {"none", "bf16"};
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
            one_of(kCompressions)}};
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
