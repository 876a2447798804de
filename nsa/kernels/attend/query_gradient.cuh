// dq of attend/params.h: a block takes 64 * kGroups rows and passes through the keys of all branches, one after the other, so
// that the sum over branches stays in registers. With p the probabilities of a branch, g its gate and x = d_o . o:
//   ds = p (g d_o . v - g x),  dq = scale sum ds k
#pragma once

#include "nsa/kernels/attend/key_steps.h"
#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/common/matrix.h"

namespace nsa::kernels {

template <class E_, int kDk_, int kDv_, int kGroups_, class X_>
struct QueryGradientConfig {
  using E = E_;
  using X = X_;
  static constexpr int kDk = kDk_;
  static constexpr int kDv = kDv_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kRows = 64 * kGroups;
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kBlocks = kDk <= 64 ? 2 : 1;  // of a multiprocessor: bounds registers
  // The products of the next keys run while those of these are used, where registers suffice.
  static constexpr bool kAhead = kDk > 64;
  static constexpr int kKeys = 64;
  static constexpr int kMostSources = 4;
  static constexpr int kStages = kAhead ? 3 : 2;
  using TileQ = Tile<kRows, kDk>;
  using TileO = Tile<kRows, kDv>;
  using TileK = Tile<kKeys, kDk>;
  using TileV = Tile<kKeys, kDv>;
  static constexpr int kStageBytes = TileK::kBytes + TileV::kBytes;
  static constexpr int kSharedBytes = TileQ::kBytes + TileO::kBytes + kStages * kStageBytes;
  static_assert(kSharedBytes <= 163 * 1024, "an A100's block has 163 KiB of shared memory");
};

template <class C>
struct QueryGradientKernel {
  using E = typename C::E;
  using X = typename C::X;
  using Scores = float[C::kKeys / 8][4];

  // Of a lane's two rows in one source.
  struct RowNumbers {
    float log2_sum[2];
    float gate[2];
    float delta[2];
  };

  const QueryGradientParams& p;
  RowTile tile;
  int group;
  int warp;
  int offset;
  LaneRows rows;
  std::uint32_t shared_q;
  std::uint32_t shared_o;
  std::uint32_t shared_keys;

  using Keys = KeyCopies<typename C::TileK, C::kThreads>;
  using Values = KeyCopies<typename C::TileV, C::kThreads>;
  NSA_DEVICE void load_keys(const KeyStep& step, int buffer, Keys& keys, Values& values) const {
    const Common& c = p.common;
    const KeySource& from = p.sources[step.source].keys;
    const std::uint32_t k = shared_keys + buffer * C::kStageBytes;
    const auto copy =
        [&](auto& copies, std::uint32_t tile_of_keys, const TensorRef& x, int chunks) {
          copies.copy(tile_of_keys,
                      c,
                      step.source,
                      x,
                      tile.sequence,
                      group,
                      from.stride(),
                      step.key,
                      step.end,
                      chunks);
        };
    copy(keys, k, from.k, c.k_chunks);
    copy(values, k + C::TileK::kBytes, from.v, c.v_chunks);
  }

  NSA_DEVICE void load_rows() const {
    const Common& c = p.common;
    copy_pairs<typename C::TileQ, C::kThreads>(shared_q,
                                               pair_rows(c, p.q, tile.sequence, group),
                                               tile.row,
                                               tile.end,
                                               c.k_chunks,
                                               thread_index());
    copy_pairs<typename C::TileO, C::kThreads>(shared_o,
                                               pair_rows(c, p.d_o, tile.sequence, group),
                                               tile.row,
                                               tile.end,
                                               c.v_chunks,
                                               thread_index());
  }

  NSA_DEVICE RowNumbers numbers(const GradientSource& source) const {
    RowNumbers n;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      n.log2_sum[half] = 0.0F;
      n.gate[half] = 0.0F;
      n.delta[half] = 0.0F;
      if (!rows.valid[half]) continue;
      const std::int64_t at = p.common.row_index(group, tile.sequence, rows.row[half]);
      n.log2_sum[half] = source.lse[at] * kLog2E;
      n.gate[half] = source.gate_delta[2 * at];
      n.delta[half] = source.gate_delta[2 * at + 1];
    }
    return n;
  }

  // s: logits become ds; dp: d_o . v.
  NSA_DEVICE void differentiate(
      Scores& s, const Scores& dp, const RowNumbers& n, const KeyStep& step, bool masked) const {
    const KeyRange& range = p.sources[step.source].keys.range;
    const int column = step.key + 2 * (lane_index() & 3);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int low = masked ? range.low(rows.query[half]) - column : 0;
      const int high = masked ? smaller(range.high(rows.query[half]), step.end) - column : C::kKeys;
      NSA_UNROLL
      for (int j = 0; j < C::kKeys / 8; ++j) {
        NSA_UNROLL
        for (int e = 0; e < 2; ++e) {
          float& x = s[j][2 * half + e];
          const float probability = exp2_fast(x * p.common.scale_log2 - n.log2_sum[half]);
          x = probability * (n.gate[half] * dp[j][2 * half + e] - n.delta[half]);
          if (masked && (8 * j + e < low || 8 * j + e >= high)) x = 0.0F;
        }
      }
    }
  }

  // s: q . k, dp: d_o . v; they are there after X::wait.
  NSA_DEVICE void begin_products(Scores& s, Scores& dp, int buffer) const {
    const std::uint32_t k = shared_keys + buffer * C::kStageBytes;
    X::begin();
    X::template product<E, C::kKeys, C::kDk>(s,
                                             Operand<typename C::TileQ, Major::k>{shared_q, offset},
                                             Operand<typename C::TileK, Major::k>{k, 0},
                                             warp);
    X::template product<E, C::kKeys, C::kDv>(
        dp,
        Operand<typename C::TileO, Major::k>{shared_o, offset},
        Operand<typename C::TileV, Major::k>{k + C::TileK::kBytes, 0},
        warp);
    X::commit();
  }

  // s becomes ds.
  NSA_DEVICE void use_products(Scores& s,
                               const Scores& dp,
                               const KeyStep& step,
                               const RowNumbers& n,
                               const KeysOfAll& seen) const {
    if (seen.all_of(step.key, C::kKeys)) {
      differentiate(s, dp, n, step, false);
    } else {
      differentiate(s, dp, n, step, true);
    }
  }
  NSA_DEVICE void begin_sum(float (&dq)[C::kDk / 8][4],
                            std::uint32_t (&ds)[C::kKeys / 16][4],
                            int buffer) const {
    X::begin(ds, dq);
    X::template multiply_held<E, C::kDk, C::kKeys>(
        dq,
        ds,
        Operand<typename C::TileK, Major::mn>{shared_keys + buffer * C::kStageBytes, 0},
        warp);
    X::commit();
  }

  NSA_DEVICE void pass_keys(float (&dq)[C::kDk / 8][4]) const {
    const Common& c = p.common;
    KeySteps<C::kMostSources> steps;
    steps.template plan<C::kKeys>(
        0,
        p.source_count,
        c.sequences.first + c.heads.quotient(tile.row),
        c.sequences.first + c.heads.quotient(tile.end - 1),
        [&](int s) -> const KeyRange& { return p.sources[s].keys.range; });
    if (steps.all == 0) return;
    load_rows();
    Keys keys;
    Values values;
    KeyStep loaded = steps.first();
    const auto load = [&](int i) {
      if (i >= steps.all) return;
      load_keys(loaded, i % C::kStages, keys, values);
      copy_commit();
      steps.template advance<C::kKeys>(loaded);
    };
    const auto loads_are_there = [] {
      copy_wait<0>();
      X::publish();
      block_sync();
    };
    load(0);
    Scores s;
    Scores dp;
    std::uint32_t ds[C::kKeys / 16][4] = {};
    if constexpr (C::kAhead) {
      loads_are_there();
      load(1);
      begin_products(s, dp, 0);
      X::template wait<0>(s, dp);
    }
    KeyStep step = steps.first();
    int source = -1;
    RowNumbers n;
    KeysOfAll seen{0, 0};
    for (int i = 0; i < steps.all; ++i) {
      if (step.source != source) {
        source = step.source;
        n = numbers(p.sources[source]);
        seen = keys_of_all(c, p.sources[source].keys.range, tile, tile.row + offset, step.end);
      }
      if constexpr (C::kAhead) {
        // The sum of a step runs beside the use of the next one's products.
        use_products(s, dp, step, n, seen);
        X::template wait<0>(dq, ds);
        as_left<E, C::kKeys>(s, ds);
        loads_are_there();
        if (i + 1 < steps.all) begin_products(s, dp, (i + 1) % C::kStages);
        begin_sum(dq, ds, i % C::kStages);
        load(i + 2);
        X::template wait<1>(s, dp);
      } else {
        loads_are_there();
        load(i + 1);
        begin_products(s, dp, i % C::kStages);
        X::template wait<0>(s, dp);
        use_products(s, dp, step, n, seen);
        as_left<E, C::kKeys>(s, ds);
        begin_sum(dq, ds, i % C::kStages);
        X::template wait<0>(dq, ds);
      }
      steps.template advance<C::kKeys>(step);
    }
    if constexpr (C::kAhead) X::template wait<0>(dq, ds);
  }

  template <class As>
  NSA_DEVICE void store(const float (&dq)[C::kDk / 8][4]) const {
    const int warp_row = offset + warp * 16;
    store_results<As, typename C::TileQ, C::kDk>(dq,
                                                 shared_q,
                                                 warp_row,
                                                 pair_rows(p.common, p.d_q, tile.sequence, group),
                                                 tile.row + warp_row,
                                                 tile.end,
                                                 p.common.k_chunks);
  }

  NSA_DEVICE void run() const {
    float dq[C::kDk / 8][4];
    clear<C::kDk>(dq);
    pass_keys(dq);
    if (tile.row + offset >= tile.end) return;
    X::template settle<C::kGroups>(offset / 64);
    NSA_UNROLL
    for (int j = 0; j < C::kDk / 8; ++j) {
      NSA_UNROLL
      for (int i = 0; i < 4; ++i) dq[j][i] *= p.common.scale;
    }
    if (p.steps == nullptr) {
      store<Rounded<E>>(dq);
      return;
    }
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float step = count_steps<Wide, C::kDk>(dq, half);
      if (rows.valid[half] && (lane_index() & 3) == 0) {
        p.steps[p.common.row_index(group, tile.sequence, rows.row[half])] = step;
      }
    }
    store<Steps>(dq);
  }
};

template <class C>
NSA_KERNEL(C::kThreads, C::kBlocks)
attend_query_gradient(NSA_PARAMETER QueryGradientParams p) {
  NSA_SHARED(shared);
  RowTiles tiles = p.tiles;
  tiles.rows = C::kRows;  // as they are; a constant, so that nothing is divided
  const RowTile tile =
      find_tile(tiles, p.common.sequences, tiles.slots(p.common.sequences.count) - 1 - block_x());
  if (tile.row >= tile.end) return;
  const int warp = warp_index();
  const int offset = warp / 4 * 64;
  const std::uint32_t base = shared_address(shared);
  const QueryGradientKernel<C> kernel{p,
                                      tile,
                                      block_y(),
                                      warp % 4,
                                      offset,
                                      lane_rows(p.common, tile, tile.row + offset + warp % 4 * 16),
                                      base,
                                      base + C::TileQ::kBytes,
                                      base + C::TileQ::kBytes + C::TileO::kBytes};
  kernel.run();
}

}  // namespace nsa::kernels
