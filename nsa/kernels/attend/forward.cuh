// Forward kernel of attend/params.h. A block of kGroups groups of four warps takes 64 * kGroups rows of one sequence and
// group; keys and values pass through three buffers of 64 keys each.
#pragma once

#include "nsa/kernels/attend/key_steps.h"
#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/common/handover.h"
#include "nsa/kernels/common/matrix.h"

namespace nsa::kernels {

template <class E_, int kDk_, int kDv_, int kGroups_, class X_>
struct ForwardConfig {
  using E = E_;
  using X = X_;
  static constexpr int kDk = kDk_;
  static constexpr int kDv = kDv_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kRows = 64 * kGroups;
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kBlocks = kDk <= 64 ? 2 : 1;  // of a multiprocessor: bounds registers
  static constexpr int kKeys = 64;
  using TileQ = Tile<kRows, kDk>;
  using TileK = Tile<kKeys, kDk>;
  using TileV = Tile<kKeys, kDv>;
  static constexpr int kStageBytes = TileK::kBytes + TileV::kBytes;
  static constexpr int kStages = 3;
  static constexpr int kSharedBytes = TileQ::kBytes + kStages * kStageBytes;
  static_assert(kSharedBytes <= 163 * 1024, "an A100's block has 163 KiB of shared memory");
};

// Softmax of a lane's two rows, in powers of two; outputs not yet divided by the sum.
template <class C>
struct ForwardState {
  float o[C::kDv / 8][4];
  float largest[2];  // logit, times scale_log2
  float sum[2];
};

template <class C>
struct ForwardKernel {
  using E = typename C::E;
  using X = typename C::X;
  using Scores = float[C::kKeys / 8][4];

  const ForwardParams& p;
  RowTile tile;
  int group;
  int warp;    // of the group of four
  int offset;  // first row of the group of warps, within the tile
  LaneRows rows;
  std::uint32_t shared_q;
  std::uint32_t shared_keys;

  [[nodiscard]] NSA_DEVICE std::uint32_t shared_k(int buffer) const {
    return shared_keys + buffer * C::TileK::kBytes;
  }
  [[nodiscard]] NSA_DEVICE std::uint32_t shared_v(int buffer) const {
    return shared_keys + C::kStages * C::TileK::kBytes + buffer * C::TileV::kBytes;
  }
  using Keys = KeyCopies<typename C::TileK, C::kThreads>;
  using Values = KeyCopies<typename C::TileV, C::kThreads>;
  template <class Copies>
  NSA_DEVICE void load_tile(
      std::uint32_t to, const TensorRef& x, const KeyStep& step, int chunks, Copies& copies) const {
    copies.copy(to,
                p.common,
                step.source,
                x,
                tile.sequence,
                group,
                p.sources[step.source].stride(),
                step.key,
                step.end,
                chunks);
  }
  NSA_DEVICE void load_keys(const KeyStep& step, int buffer, Keys& copies) const {
    load_tile(shared_k(buffer), p.sources[step.source].k, step, p.common.k_chunks, copies);
  }
  NSA_DEVICE void load_values(const KeyStep& step, int buffer, Values& copies) const {
    load_tile(shared_v(buffer), p.sources[step.source].v, step, p.common.v_chunks, copies);
  }

  NSA_DEVICE void mask(Scores& s, const KeyStep& step) const {
    const KeyRange& range = p.sources[step.source].range;
    const int column = step.key + 2 * (lane_index() & 3);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int low = range.low(rows.query[half]) - column;
      const int high = smaller(range.high(rows.query[half]), step.end) - column;
      NSA_UNROLL
      for (int j = 0; j < C::kKeys / 8; ++j) {
        NSA_UNROLL
        for (int e = 0; e < 2; ++e) {
          if (8 * j + e < low || 8 * j + e >= high) s[j][2 * half + e] = minus_infinity();
        }
      }
    }
  }

  // Online softmax: s becomes probabilities relative to the largest logit so far. The outputs are still to be multiplied with
  // `shrink`.
  NSA_DEVICE void soften(Scores& s, ForwardState<C>& state, float (&shrink)[2]) const {
    const float scale = p.common.scale_log2;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = largest_of<C::kKeys>(s, half);
      largest = fmaxf(largest, shuffle_xor(largest, 1));
      largest = fmaxf(largest, shuffle_xor(largest, 2));
      largest = fmaxf(largest * scale, state.largest[half]);
      // A row that has seen no key yet: 0, so that exp2(-inf - 0) is 0.
      const float base = largest == minus_infinity() ? 0.0F : largest;
      shrink[half] = exp2_fast(state.largest[half] - base);
      state.largest[half] = largest;
      const float sum = raise<C::kKeys>(s, half, scale, base);
      state.sum[half] = state.sum[half] * shrink[half] + sum;
    }
  }
  NSA_DEVICE static void shrink_outputs(ForwardState<C>& state, int half, float factor) {
    NSA_UNROLL
    for (int j = 0; j < C::kDv / 8; ++j) {
      state.o[j][2 * half] *= factor;
      state.o[j][2 * half + 1] *= factor;
    }
  }

  // Logits of one tile of keys; they are there after X::wait.
  NSA_DEVICE void begin_scores(Scores& s, int buffer) const {
    X::begin();
    X::template product<E, C::kKeys, C::kDk>(
        s,
        Operand<typename C::TileQ, Major::k>{shared_q, offset},
        Operand<typename C::TileK, Major::k>{shared_k(buffer), 0},
        warp);
    X::commit();
  }

  NSA_DEVICE void begin_outputs(ForwardState<C>& state,
                                std::uint32_t (&probabilities)[C::kKeys / 16][4],
                                int buffer) const {
    X::begin(probabilities, state.o);
    X::template multiply_held<E, C::kDv, C::kKeys>(
        state.o, probabilities, Operand<typename C::TileV, Major::mn>{shared_v(buffer), 0}, warp);
    X::commit();
  }

  // Softmax of one step; the outputs of the step before are summed up meanwhile.
  NSA_DEVICE void take_in(Scores& s,
                          const KeyStep& step,
                          const KeysOfAll& seen,
                          ForwardState<C>& state,
                          std::uint32_t (&probabilities)[C::kKeys / 16][4]) const {
    if (!seen.all_of(step.key, C::kKeys)) mask(s, step);
    float shrink[2];
    soften(s, state, shrink);
    X::template wait<0>(state.o, probabilities);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (shrink[half] != 1.0F) shrink_outputs(state, half, shrink[half]);
    }
    as_left<E, C::kKeys>(s, probabilities);
  }

  // The rows as steps, with the logarithms of their denominators.
  NSA_DEVICE void store_steps(const ForwardBranch& branch, ForwardState<C>& state) const {
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float sum = state.sum[half];
      const float step = count_steps<Wide, C::kDv>(state.o, half);
      if (!rows.valid[half] || (lane_index() & 3) != 0) continue;
      store_pair(branch.scales + 2 * p.common.row_index(group, tile.sequence, rows.row[half]),
                 sum == 0.0F ? minus_infinity() : state.largest[half] + log2_exact(sum),
                 sum == 0.0F ? 0.0F : step / sum);
    }
    store<Steps>(branch, state);
  }

  NSA_DEVICE void finish(const ForwardBranch& branch, ForwardState<C>& state) const {
    const Common& c = p.common;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      state.sum[half] += shuffle_xor(state.sum[half], 1);
      state.sum[half] += shuffle_xor(state.sum[half], 2);
    }
    if (branch.scales != nullptr) {
      store_steps(branch, state);
      return;
    }
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float sum = state.sum[half];
      // A row without keys gives zeros; a NaN stays one.
      shrink_outputs(state, half, sum == 0.0F ? 0.0F : 1.0F / sum);
      if (branch.lse != nullptr && rows.valid[half] && (lane_index() & 3) == 0) {
        constexpr float kLn2 = 0.693147180559945309F;
        branch.lse[c.row_index(group, tile.sequence, rows.row[half])] =
            sum == 0.0F ? minus_infinity() : (state.largest[half] + log2_exact(sum)) * kLn2;
      }
    }
    store<Rounded<E>>(branch, state);
  }
  template <class As>
  NSA_DEVICE void store(const ForwardBranch& branch, const ForwardState<C>& state) const {
    store_held_results<As, C::kDv>(
        state.o, pair_rows(p.common, branch.o, tile.sequence, group), rows, p.common.v_chunks);
  }

  NSA_DEVICE static void clear_state(ForwardState<C>& state) {
    clear<C::kDv>(state.o);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      state.largest[half] = minus_infinity();
      state.sum[half] = 0.0F;
    }
  }

  // Branches [from, to), one after the other: the first keys of one are on their way while the one before it ends. Turn i of the
  // handover has the keys of step i + 1 and the values of step i, steps of all branches counted through.
  NSA_DEVICE void run(int from, int to) const {
    const Common& c = p.common;
    KeySteps<4> steps;
    steps.template plan<C::kKeys>(p.branches[from].sources_begin,
                                  p.branches[to - 1].sources_end,
                                  c.sequences.first + c.heads.quotient(tile.row),
                                  c.sequences.first + c.heads.quotient(tile.end - 1),
                                  [&](int s) -> const KeyRange& { return p.sources[s].range; });
    const Handover<C::kGroups> handover{offset / 64};
    Keys keys;
    Values values;
    KeyStep step = steps.first();
    KeyStep next = step;
    steps.template advance<C::kKeys>(next);
    // Values of `step`, keys of `next`.
    const auto load = [&](int turn) {
      load_values(step, turn % C::kStages, values);
      if (turn + 1 < steps.all) load_keys(next, (turn + 1) % C::kStages, keys);
      copy_commit();
    };
    KeysOfAll seen{0, 0};
    const auto look_at_source = [&] {
      seen = keys_of_all(c, p.sources[step.source].range, tile, tile.row + offset, step.end);
    };
    const auto hand_over = [&](int turn) {
      copy_wait<0>();
      X::publish();
      handover.give(turn);
    };
    if (steps.all > 0) {
      copy_pairs<typename C::TileQ, C::kThreads>(shared_q,
                                                 pair_rows(c, p.q, tile.sequence, group),
                                                 tile.row,
                                                 tile.end,
                                                 c.k_chunks,
                                                 thread_index());
      load_keys(step, 0, keys);
      copy_commit();
      load(0);
      copy_wait<1>();
      X::publish();
      block_sync();
    }
    int turn = 0;
    NSA_NO_UNROLL
    for (int b = from; b < to; ++b) {
      const ForwardBranch& branch = p.branches[b];
      ForwardState<C> state;
      clear_state(state);
      if (step.source < branch.sources_end) {
        Scores s;
        std::uint32_t probabilities[C::kKeys / 16][4] = {};
        begin_scores(s, turn % C::kStages);
        X::template wait<0>(s);
        hand_over(turn);
        look_at_source();
        take_in(s, step, seen, state, probabilities);
        NSA_NO_UNROLL
        while (next.source < branch.sources_end) {
          handover.take(turn);
          const bool other_source = next.source != step.source;
          step = next;
          if (other_source) look_at_source();
          steps.template advance<C::kKeys>(next);
          load(turn + 1);
          begin_scores(s, (turn + 1) % C::kStages);
          begin_outputs(state, probabilities, turn % C::kStages);
          X::template wait<1>(s);
          ++turn;
          hand_over(turn);
          take_in(s, step, seen, state, probabilities);
        }
        handover.take(turn);
        begin_outputs(state, probabilities, turn % C::kStages);
        step = next;
        steps.template advance<C::kKeys>(next);
        ++turn;
        if (turn < steps.all) load(turn);
        X::template wait<0>(state.o, probabilities);
      }
      if (tile.row + offset < tile.end) finish(branch, state);
    }
  }
};

template <class C>
NSA_KERNEL(C::kThreads, C::kBlocks)
attend_forward(NSA_PARAMETER ForwardParams p) {
  NSA_SHARED(shared);
  RowTiles tiles = p.tiles;
  tiles.rows = C::kRows;  // as they are; a constant, so that nothing is divided
  const RowTile tile =
      find_tile(tiles, p.common.sequences, tiles.slots(p.common.sequences.count) - 1 - block_x());
  if (tile.row >= tile.end) return;
  const int warp = warp_index();
  const int offset = warp / 4 * 64;
  const std::uint32_t base = shared_address(shared);
  const ForwardKernel<C> kernel{p,
                                tile,
                                block_y(),
                                warp % 4,
                                offset,
                                lane_rows(p.common, tile, tile.row + offset + warp % 4 * 16),
                                base,
                                base + C::TileQ::kBytes};
  const int first = block_z() * p.together;
  kernel.run(first, smaller(first + p.together, p.branch_count));
}

}  // namespace nsa::kernels
