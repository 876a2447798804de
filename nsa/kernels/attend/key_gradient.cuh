// dk and dv of attend/params.h: a block keeps 64 * kGroups keys of one source and passes through the rows that see them. The
// tiles are transposed, keys by rows, so that probabilities and ds become left operands in registers. With p, g, x as in
// query_gradient.cuh:  dv = sum (g p) d_o,  dk = scale sum ds q
#pragma once

#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/common/handover.h"
#include "nsa/kernels/common/matrix.h"

namespace nsa::kernels {

template <class E_, int kDk_, int kDv_, int kGroups_, class X_>
struct KeyGradientConfig {
  using E = E_;
  using X = X_;
  static constexpr int kDk = kDk_;
  static constexpr int kDv = kDv_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kKeys = 64 * kGroups;
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kBlocks = kDk <= 64 ? 3 : 1;  // of a multiprocessor: bounds registers
  static constexpr int kRows = kDk > 128 ? 32 : 64;  // registers: dk and dv stay in them
  using TileK = Tile<kKeys, kDk>;
  using TileV = Tile<kKeys, kDv>;
  using TileQ = Tile<kRows, kDk>;
  using TileO = Tile<kRows, kDv>;
  static constexpr int kNumberBytes = kRows * 12;  // lse, gate and delta of each row
  static constexpr int kStageBytes = TileQ::kBytes + TileO::kBytes;
  static constexpr int kStages = 3;
  static constexpr int kSharedBytes =
      TileK::kBytes + TileV::kBytes + kStages * (kStageBytes + kNumberBytes);
  static_assert(kSharedBytes <= 163 * 1024, "an A100's block has 163 KiB of shared memory");
};

// Rows [from, to) of a sequence.
struct RowRange {
  int from;
  int to;
};

// Of a sequence's `queries`, those whose rows see a key. REQUIRES: they count from position 0.
NSA_DEVICE RowRange rows_of_key(const Common& c, const KeyRange& range, int queries, int key) {
  const int h = c.heads.divisor;
  return {smaller(range.first_query(key), queries) * h, range.end_query(key, queries) * h};
}

// Of a tile's keys: rows that see one of them, and rows that see every one.
struct SeeingRows {
  RowRange any;
  RowRange all;
};

// Of the keys key .. key + 63 of those before `end`.
NSA_DEVICE SeeingRows
rows_that_see(const Common& c, const KeyRange& range, int b, int key, int end) {
  if (key >= end) return {{0, 0}, {0, 0}};
  const int queries = c.sequences.queries(b);
  const RowRange first = rows_of_key(c, range, queries, key);
  const RowRange last = rows_of_key(c, range, queries, key + 63);
  return {{first.from, last.to}, {last.from, first.to}};
}

template <class C>
struct KeyGradientKernel {
  using E = typename C::E;
  using X = typename C::X;
  using Scores = float[C::kRows / 8][4];

  const KeyGradientParams& p;
  const KeyGradientSource& source;
  KeyTile tile;
  int segment;
  int group;
  int warp;
  int offset;  // first key of the group of warps, within the tile
  std::uint32_t shared;
  PairRows q_rows;
  PairRows o_rows;
  SeeingRows seeing;
  std::int64_t first_number;  // of the sequence's rows in lse and gate_delta

  static constexpr int kAtV = C::TileK::kBytes;
  static constexpr int kAtRows = kAtV + C::TileV::kBytes;
  static constexpr int kAtNumbers = kAtRows + C::kStages * C::kStageBytes;

  NSA_DEVICE void load_keys() const {
    const Common& c = p.common;
    const std::uint32_t base = shared;
    const int stride = source.tiles.stride();
    copy_rows<typename C::TileK, C::kThreads>(
        base,
        key_rows(c, source.in.keys.k, tile.sequence, group, stride),
        tile.key,
        tile.end,
        c.k_chunks,
        thread_index());
    copy_rows<typename C::TileV, C::kThreads>(
        base + kAtV,
        key_rows(c, source.in.keys.v, tile.sequence, group, stride),
        tile.key,
        tile.end,
        c.v_chunks,
        thread_index());
  }

  NSA_DEVICE void load_rows(int row, int end, int buffer) const {
    const Common& c = p.common;
    const std::uint32_t q = shared + kAtRows + buffer * C::kStageBytes;
    copy_pairs<typename C::TileQ, typename C::TileO, C::kThreads>(
        q, q_rows, c.k_chunks, q + C::TileQ::kBytes, o_rows, c.v_chunks, row, end, thread_index());
    const int r = thread_index();
    if (r < C::kRows) {
      const std::uint32_t numbers = shared + kAtNumbers + buffer * C::kNumberBytes;
      const bool valid = row + r < end;
      const std::int64_t at = first_number + (valid ? row + r : 0);
      copy4(numbers + 4 * r, source.in.lse + at, valid);
      copy8(numbers + 4 * C::kRows + 8 * r, source.in.gate_delta + 2 * at, valid);
    }
  }

  // st: logits become ds; dpt: d_o . v becomes g p. Both keys by rows.
  template <bool kMasked>
  NSA_DEVICE void differentiate(Scores& st, Scores& dpt, int row, int buffer) const {
    const Common& c = p.common;
    const std::uint32_t lse = shared + kAtNumbers + buffer * C::kNumberBytes;
    const std::uint32_t gate_delta = lse + 4 * C::kRows;
    RowRange seen[2] = {};
    if constexpr (kMasked) {
      const int queries = c.sequences.queries(tile.sequence);
      NSA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int key = tile.key + offset + warp * 16 + (lane_index() >> 2) + 8 * half;
        seen[half] = rows_of_key(c, source.tiles.range, queries, key);
      }
    }
    NSA_UNROLL
    for (int j = 0; j < C::kRows / 8; ++j) {
      const int first = 8 * j + 2 * (lane_index() & 3);
      const Pair sums = load_shared_pair(lse + 4 * first);
      const Words4 words = load_shared16(gate_delta + 8 * first);
      NSA_UNROLL
      for (int e = 0; e < 2; ++e) {
        const float log2_sum = (e == 0 ? sums.x : sums.y) * kLog2E;
        const float gate = bits_to_float(e == 0 ? words.x : words.z);
        const float delta = bits_to_float(e == 0 ? words.y : words.w);
        NSA_UNROLL
        for (int half = 0; half < 2; ++half) {
          float& x = st[j][2 * half + e];
          float& y = dpt[j][2 * half + e];
          float probability = exp2_fast(x * c.scale_log2 - log2_sum);
          if constexpr (kMasked) {
            const int query_row = row + first + e;
            if (query_row < seen[half].from || query_row >= seen[half].to) probability = 0.0F;
          }
          x = probability * (gate * y - delta);
          y = probability * gate;
        }
      }
    }
  }

  // They are there after X::wait.
  NSA_DEVICE void begin_products(Scores& st, Scores& dpt, int buffer) const {
    const std::uint32_t q = shared + kAtRows + buffer * C::kStageBytes;
    X::begin();
    X::template product<E, C::kRows, C::kDk>(st,
                                             Operand<typename C::TileK, Major::k>{shared, offset},
                                             Operand<typename C::TileQ, Major::k>{q, 0},
                                             warp);
    X::template product<E, C::kRows, C::kDv>(
        dpt,
        Operand<typename C::TileV, Major::k>{shared + kAtV, offset},
        Operand<typename C::TileO, Major::k>{q + C::TileQ::kBytes, 0},
        warp);
    X::commit();
  }

  // `dpt` and `st` of rows from `row` on become g p and ds.
  NSA_DEVICE void use_products(Scores& st, Scores& dpt, int row, int end, int buffer) const {
    if (row < seeing.all.from || smaller(row + C::kRows, end) > seeing.all.to) {
      differentiate<true>(st, dpt, row, buffer);
    } else {
      differentiate<false>(st, dpt, row, buffer);
    }
  }

  using Left = std::uint32_t[C::kRows / 16][4];

  NSA_DEVICE void begin_sums(float (&dk)[C::kDk / 8][4],
                             float (&dv)[C::kDv / 8][4],
                             Left& left_p,
                             Left& left_ds,
                             int buffer) const {
    const std::uint32_t q = shared + kAtRows + buffer * C::kStageBytes;
    X::begin(left_p, left_ds, dk, dv);
    X::template multiply_held<E, C::kDv, C::kRows>(
        dv, left_p, Operand<typename C::TileO, Major::mn>{q + C::TileQ::kBytes, 0}, warp);
    X::template multiply_held<E, C::kDk, C::kRows>(
        dk, left_ds, Operand<typename C::TileQ, Major::mn>{q, 0}, warp);
    X::commit();
  }

  // `meanwhile` runs beside the last products, or in their place where this group's keys see none of the rows.
  template <class Meanwhile>
  NSA_DEVICE void step(int row,
                       int end,
                       int buffer,
                       float (&dk)[C::kDk / 8][4],
                       float (&dv)[C::kDv / 8][4],
                       const Meanwhile& meanwhile) const {
    if (row >= seeing.any.to || row + C::kRows <= seeing.any.from) {
      meanwhile();
      return;
    }
    Scores st;
    Scores dpt;
    begin_products(st, dpt, buffer);
    X::template wait<0>(st, dpt);
    use_products(st, dpt, row, end, buffer);
    Left left_p;
    Left left_ds;
    as_left<E, C::kRows>(dpt, left_p);
    as_left<E, C::kRows>(st, left_ds);
    begin_sums(dk, dv, left_p, left_ds, buffer);
    meanwhile();
    X::template wait<0>(dk, dv, left_p, left_ds);
  }

  NSA_DEVICE void store_sums(const float (&dk)[C::kDk / 8][4],
                             const float (&dv)[C::kDv / 8][4]) const {
    const std::int64_t rows = static_cast<std::int64_t>(p.common.groups) * source.key_rows;
    const std::int64_t first = segment * rows + static_cast<std::int64_t>(group) * source.key_rows +
                               source.first_row(p.common.sequences, tile.sequence);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int key = tile.key + offset + warp * 16 + (lane_index() >> 2) + 8 * half;
      if (key >= tile.end) continue;
      float* to = source.sums + (first + key) * (C::kDk + C::kDv) + 2 * (lane_index() & 3);
      NSA_UNROLL
      for (int j = 0; j < C::kDk / 8; ++j) {
        store_pair(to + 8 * j, dk[j][2 * half], dk[j][2 * half + 1]);
      }
      NSA_UNROLL
      for (int j = 0; j < C::kDv / 8; ++j) {
        store_pair(to + C::kDk + 8 * j, dv[j][2 * half], dv[j][2 * half + 1]);
      }
    }
  }

  // Keys as "pairs" of one head: the same way out as rows of queries.
  NSA_DEVICE PairRows key_pairs(const TensorRef& x) const {
    const ByteRows rows = key_rows(p.common, x, tile.sequence, group, source.tiles.stride());
    return {rows.data, rows.step, 0, Divider{0x80000000U, 31, 1}};
  }

  NSA_DEVICE void store_elements(const float (&dk)[C::kDk / 8][4],
                                 const float (&dv)[C::kDv / 8][4]) const {
    const int warp_row = offset + warp * 16;
    const std::uint32_t base = shared;
    X::template settle<C::kGroups>(offset / 64);
    store_results<Rounded<E>, typename C::TileK, C::kDk>(dk,
                                                         base,
                                                         warp_row,
                                                         key_pairs(source.d_k),
                                                         tile.key + warp_row,
                                                         tile.end,
                                                         p.common.k_chunks);
    store_results<Rounded<E>, typename C::TileV, C::kDv>(dv,
                                                         base + kAtV,
                                                         warp_row,
                                                         key_pairs(source.d_v),
                                                         tile.key + warp_row,
                                                         tile.end,
                                                         p.common.v_chunks);
  }

  NSA_DEVICE void pass_rows(int first,
                            int end,
                            float (&dk)[C::kDk / 8][4],
                            float (&dv)[C::kDv / 8][4]) const {
    const Handover<C::kGroups> handover{offset / 64};
    const auto hand_over = [&](int turn) {
      copy_wait<0>();
      X::publish();
      handover.give(turn);
    };
    hand_over(0);
    handover.take(0);
    const int steps = first < end ? (end - first + C::kRows - 1) / C::kRows : 0;
    for (int i = 0; i < steps; ++i) {
      const int row = first + i * C::kRows;
      if (i > 0) handover.take(i);
      if (i + 1 < steps) {
        load_rows(row + C::kRows, end, (i + 1) % C::kStages);
        copy_commit();
      }
      step(row, end, i % C::kStages, dk, dv, [&] {
        if (i + 1 < steps) hand_over(i + 1);
      });
    }
  }

  NSA_DEVICE void run(int first, int end) const {
    float dk[C::kDk / 8][4];
    float dv[C::kDv / 8][4];
    clear<C::kDk>(dk);
    clear<C::kDv>(dv);
    load_keys();
    if (first < end) load_rows(first, end, 0);
    copy_commit();
    pass_rows(first, end, dk, dv);
    if (tile.key + offset >= tile.end) return;
    NSA_UNROLL
    for (int j = 0; j < C::kDk / 8; ++j) {
      NSA_UNROLL
      for (int i = 0; i < 4; ++i) dk[j][i] *= p.common.scale;
    }
    if (source.sums != nullptr) {
      store_sums(dk, dv);
    } else {
      store_elements(dk, dv);
    }
  }
};

template <class C>
NSA_KERNEL(C::kThreads, C::kBlocks)
attend_key_gradient(NSA_PARAMETER KeyGradientParams p) {
  NSA_SHARED(shared);
  int index = block_x();
  int s = 0;
  while (s + 1 < p.source_count && index >= p.sources[s].slots * p.sources[s].segments) {
    index -= p.sources[s].slots * p.sources[s].segments;
    ++s;
  }
  const KeyGradientSource& source = p.sources[s];
  const KeyTile tile = find_keys(source.tiles, p.common.sequences, index % source.slots);
  if (tile.key >= tile.end) return;
  const RowSegments rows = seeing_rows(source.tiles.range,
                                       tile.key,
                                       smaller(tile.key + C::kKeys, tile.end),
                                       p.common.sequences.queries(tile.sequence),
                                       p.common.heads.divisor,
                                       source.segment);
  // The last rows first: all keys see them. A key that nobody sees still gets its zeros, from segment 0.
  const int place = source.segments - 1 - index / source.slots;
  const int segment = rows.count() > 0 ? place - rows.skipped() : place;
  if (segment < 0 || (segment >= rows.count() && segment > 0)) return;
  const int warp = warp_index();
  const int offset = warp / 4 * 64;
  const KeyGradientKernel<C> kernel{
      p,
      source,
      tile,
      segment,
      block_y(),
      warp % 4,
      offset,
      shared_address(shared),
      pair_rows(p.common, p.q, tile.sequence, block_y()),
      pair_rows(p.common, p.d_o, tile.sequence, block_y()),
      rows_that_see(p.common, source.tiles.range, tile.sequence, tile.key + offset, tile.end),
      p.common.row_index(block_y(), tile.sequence, 0)};
  kernel.run(rows.begin(segment), rows.end(segment));
}

}  // namespace nsa::kernels
