// One MatrixKernels from its types: included by the generated instances.
#pragma once

#include "nsa/kernels/attend/forward.cuh"
#include "nsa/kernels/attend/key_gradient.cuh"
#include "nsa/kernels/attend/query_gradient.cuh"
#include "nsa/kernels/choose/score.cuh"
#include "nsa/kernels/common/kernels.h"
#include "nsa/kernels/common/launch.h"
#include "nsa/kernels/selected/backward.cuh"
#include "nsa/kernels/selected/forward.cuh"

namespace nsa::kernels {

// Groups of four warps of a block, for each kernel: so many that registers and shared memory suffice.
template <class E, int kDk, int kDv, class X>
struct KernelSet {
  using Forward = ForwardConfig<E, kDk, kDv, (kDk > 128 ? 1 : (kDk == 128 ? 3 : 2)), X>;
  using QueryGradient = QueryGradientConfig<E, kDk, kDv, (kDk > 128 ? 1 : 2), X>;
  using KeyGradient = KeyGradientConfig<E, kDk, kDv, (kDk == 128 ? 2 : 1), X>;
  template <class Parts>
  using SelectedForward = SelectedForwardConfig<E, kDk, kDv, X, Parts>;
  template <class Parts>
  using SelectedBackward = SelectedBackwardConfig<E, kDk, kDv, X, Parts>;
  using Score = ScoreConfig<E, kDk, X>;

  static void forward(const ForwardParams& p, std::int64_t tiles, Stream stream) {
    launch(attend_forward<Forward>,
           {tiles, p.common.groups, ceil_div(p.branch_count, p.together)},
           Forward::kThreads,
           Forward::kSharedBytes,
           stream,
           p);
  }
  static void query_gradient(const QueryGradientParams& p, std::int64_t tiles, Stream stream) {
    launch(attend_query_gradient<QueryGradient>,
           {tiles, p.common.groups, 1},
           QueryGradient::kThreads,
           QueryGradient::kSharedBytes,
           stream,
           p);
  }
  static void key_gradient(const KeyGradientParams& p, std::int64_t tiles, Stream stream) {
    launch(attend_key_gradient<KeyGradient>,
           {tiles, p.common.groups, 1},
           KeyGradient::kThreads,
           KeyGradient::kSharedBytes,
           stream,
           p);
  }
  static void selected_forward(const SelectedParams& p, std::int64_t items, Stream stream) {
    using Config = SelectedForward<Wide>;
    launch(p.parts.is_narrow() ? kernels::selected_forward<SelectedForward<NarrowOf<E>>>
                               : kernels::selected_forward<Config>,
           {items, p.parts.groups, 1},
           Config::kThreads,
           Config::kSharedBytes,
           stream,
           p);
  }
  static void selected_backward(const SelectedParams& p, std::int64_t items, Stream stream) {
    using Config = SelectedBackward<Wide>;
    launch(p.parts.is_narrow() ? kernels::selected_backward<SelectedBackward<NarrowOf<E>>>
                               : kernels::selected_backward<Config>,
           {items, p.parts.groups, 1},
           Config::kThreads,
           Config::kSharedBytes,
           stream,
           p);
  }
  static void score(const ScoreParams& asked, std::int64_t tiles, Stream stream) {
    ScoreParams p = asked;
    p.tile_blocks = (Score::kKeys - p.touching) / p.stride + 1;
    const std::int64_t key_tiles = ceil_div(p.blocks_end, p.tile_blocks);
    p.key_tiles = Divider::of(larger(1, static_cast<int>(key_tiles)));
    launch(score_blocks<Score>,
           {tiles * key_tiles, p.common.groups, 1},
           Score::kThreads,
           Score::kSharedBytes,
           stream,
           p);
  }
  static MatrixKernels table(Element element, Family family) {
    return {element,
            family,
            kDk,
            kDv,
            Forward::kRows,
            QueryGradient::kRows,
            KeyGradient::kKeys,
            Score::kRows,
            Score::kKeys,
            forward,
            query_gradient,
            key_gradient,
            selected_forward,
            selected_backward,
            score};
  }
};

}  // namespace nsa::kernels
