// What kernels with rows (query, head) of one sequence and group in their tiles have in common.
#pragma once

#include "nsa/kernels/common/params.h"
#include "nsa/kernels/common/part.h"
#include "nsa/kernels/common/tile.h"

namespace nsa::kernels {

// Two rows of a lane: i / 4 and i / 4 + 8 of its warp's 16.
struct LaneRows {
  int row[2];    // within the sequence
  int query[2];  // their positions
  bool valid[2];
};

NSA_DEVICE LaneRows lane_rows(const Common& c, const RowTile& tile, int first) {
  LaneRows r;
  NSA_UNROLL
  for (int half = 0; half < 2; ++half) {
    r.row[half] = first + (lane_index() >> 2) + 8 * half;
    r.query[half] = c.sequences.first + c.heads.quotient(r.row[half]);
    r.valid[half] = r.row[half] < tile.end;
  }
  return r;
}

NSA_DEVICE PairRows pair_rows(const Common& c, const TensorRef& x, int b, int group) {
  return {
      at_sequence(x, c.sequences, b) + static_cast<std::int64_t>(group) * c.heads.divisor * x.head,
      x.position,
      x.head,
      c.heads};
}

NSA_DEVICE ByteRows key_rows(const Common& c, const TensorRef& x, int b, int group, int stride) {
  return {at_sequence(x, c.sequences, b, stride) + group * x.head, x.position};
}

// Keys [low, high) that each of 64 rows from `first` on sees.
struct KeysOfAll {
  int low;
  int high;

  NSA_DEVICE bool all_of(int key, int keys) const { return key >= low && key + keys <= high; }
};
NSA_DEVICE KeysOfAll
keys_of_all(const Common& c, const KeyRange& range, const RowTile& tile, int first, int key_end) {
  const int first_row = smaller(first, tile.end - 1);
  const int from = c.sequences.first + c.heads.quotient(first_row);
  const int last = c.sequences.first + c.heads.quotient(smaller(first_row + 64, tile.end) - 1);
  return {range.low(last), smaller(range.high(from), key_end)};
}

// The rows of keys or of values of the source that was asked for last: finding them is work for every step of a kernel.
struct FoundRows {
  int source = -1;
  ByteRows rows{nullptr, 0};

  NSA_DEVICE const ByteRows& find(
      const Common& c, int from, const TensorRef& x, int b, int group, int stride) {
    if (from != source) {
      source = from;
      rows = key_rows(c, x, b, group, stride);
    }
    return rows;
  }
};

// Results of a warp (16 rows) in element type to memory, 16 bytes a lane, by way of the warp's rows of a tile.
template <class E, class T, int kColumns>
NSA_DEVICE void store_results(const float (&acc)[kColumns / 8][4],
                              std::uint32_t tile,
                              int warp_row,
                              const PairRows& to,
                              int first,
                              int end,
                              int chunks) {
  const int lane = lane_index();
  warp_sync();
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    const int r = warp_row + (lane >> 2);
    const std::uint32_t column = (lane & 3) * 4;
    store_shared(tile + T::at(r, j) + column, pack<E>(acc[j][0], acc[j][1]));
    store_shared(tile + T::at(r + 8, j) + column, pack<E>(acc[j][2], acc[j][3]));
  }
  warp_sync();
  constexpr int kChunks = kColumns / 8;
  NSA_UNROLL
  for (int i = 0; i < kChunks / 2; ++i) {
    const int r = (lane + 32 * i) / kChunks;
    const int chunk = (lane + 32 * i) % kChunks;
    if (first + r < end && chunk < chunks) {
      store_global16(const_cast<char*>(to.row(first + r)) + chunk * 16,
                     load_shared16(tile + T::at(warp_row + r, chunk)));
    }
  }
}

// The parts of one row's picks, in the order of picks. Lane t of the row's four looks at picks t, t + 4, ..; their scales are
// handed round. `weigh(scale)` makes the factor of a part of its scale, all four lanes at once; 0 leaves it out.
inline constexpr int kMostPicks = 32;

struct RowParts {
  const std::int32_t* blocks;  // of the row's query
  std::int64_t first;          // part of pick 0
};

template <class Use>
NSA_DEVICE void each_own_pick(const Common& c,
                              const PartBuffers& parts,
                              const RowParts& row,
                              bool valid,
                              bool forced_apart,
                              int query,
                              const Use& use) {
  const int t = lane_index() & 3;
  const int n = c.geometry.n_sel;
  // All loads first: each waits for memory. Where there is no pick, any place will do.
  bool listed[kMostPicks / 4];
  NSA_UNROLL
  for (int i = 0; i < kMostPicks / 4; ++i) {
    if (4 * i >= n) break;
    const int pick = smaller(4 * i + t, n - 1);
    const int previous = row.blocks[larger(pick - 1, 0)];
    listed[i] =
        valid && 4 * i + t < n &&
        is_listed(c.geometry, forced_apart, query, row.blocks[pick], pick > 0 ? previous : -1);
  }
  PartScale scales[kMostPicks / 4];
  NSA_UNROLL
  for (int i = 0; i < kMostPicks / 4; ++i) {
    if (4 * i >= n) break;
    const std::int64_t at =
        listed[i] ? row.first + static_cast<std::int64_t>(4 * i + t) * c.heads.divisor : 0;
    scales[i] = {parts.scales[2 * at], parts.scales[2 * at + 1]};
  }
  NSA_UNROLL
  for (int i = 0; i < kMostPicks / 4; ++i) {
    const bool there = 4 * i < n && listed[i];
    use(i, there ? scales[i] : PartScale{minus_infinity(), 0.0F});
  }
}

// acc += sum over picks of weight * values. The loop over picks stays one: unrolled it is longer than the instruction cache.
template <int kColumns>
NSA_DEVICE void add_parts(float (&acc)[kColumns / 8][4],
                          int half,
                          const Common& c,
                          const PartBuffers& parts,
                          std::int64_t first,
                          const float (&weights)[kMostPicks / 4]) {
  const int lane = lane_index();
  NSA_NO_UNROLL
  for (int i = 0; 4 * i < c.geometry.n_sel; ++i) {
    float own = weights[0];
    NSA_UNROLL
    for (int j = 1; j < kMostPicks / 4; ++j) own = i == j ? weights[j] : own;
    NSA_UNROLL
    for (int k = 0; k < 4; ++k) {
      const float weight = shuffle(own, (lane & ~3) + k);
      // Where nothing is to be added, any memory will do: integers times 0 are 0.
      const std::int64_t at =
          weight != 0.0F ? first + static_cast<std::int64_t>(4 * i + k) * c.heads.divisor : 0;
      add_part<kColumns>(acc, half, weight, parts.values + at * kColumns * 2);
    }
  }
}

NSA_DEVICE RowParts row_parts(
    const Common& c, const PartBuffers& parts, const TensorRef& blocks, int b, int group, int row) {
  const int query = c.heads.quotient(row);
  return {reinterpret_cast<const std::int32_t*>(at_sequence(blocks, c.sequences, b) +
                                                group * blocks.head + query * blocks.position),
          parts.row(c, group, c.sequences.begin(b) + query, 0, row - query * c.heads.divisor)};
}

}  // namespace nsa::kernels
