// Forward kernel of selected/params.h: four warps, 64 rows at a time; the softmax of a part is over its block alone.
#pragma once

#include "nsa/kernels/common/part.h"
#include "nsa/kernels/selected/list_rows.cuh"

namespace nsa::kernels {

// Parts: how a part is kept (common/part.h).
template <class E_, int kDk_, int kDv_, class X_, class Parts_>
struct SelectedForwardConfig {
  using E = E_;
  using Parts = Parts_;
  using X = X_;
  static constexpr int kDk = kDk_;
  static constexpr int kDv = kDv_;
  static constexpr int kKeys = 64;
  static constexpr int kRows = 64;
  static constexpr int kThreads = 128;
  // Wide rows have one buffer, so that one thread block more has room: the next rows wait until the logits of these are there.
  static constexpr int kBuffers = kDk <= 64 ? 2 : 1;
  static constexpr int kBlocks =
      kDk <= 64 ? 5 : (kDk <= 128 ? 4 : 3);  // of a multiprocessor: bounds registers
  using TileK = Tile<kKeys, kDk>;
  using TileV = Tile<kKeys, kDv>;
  using TileQ = Tile<kRows, kDk>;
  static constexpr int kAtV = TileK::kBytes;
  static constexpr int kAtQ = kAtV + TileV::kBytes;
  static constexpr int kAtEntries = kAtQ + kBuffers * TileQ::kBytes;
  static constexpr int kSharedBytes = kAtEntries + kEntryBytes * kMostItemEntries;
  static_assert(kSharedBytes <= 163 * 1024, "an A100's block has 163 KiB of shared memory");
};

template <class C>
struct SelectedForwardKernel {
  using E = typename C::E;
  using X = typename C::X;
  using Scores = float[C::kKeys / 8][4];

  const SelectedParams& p;
  ListItem item;
  ListRows list;
  BlockKeys keys;
  PairRows q_rows;
  int group;
  std::uint32_t shared;

  NSA_DEVICE void load_rows(int first, int buffer) const {
    copy_list_rows<typename C::TileQ, C::kThreads>(
        shared + C::kAtQ + buffer * C::TileQ::kBytes, q_rows, list, first, p.common.k_chunks);
    copy_commit();
  }

  struct RowSum {
    float log2;     // logarithm (base 2) of the row's denominator
    float inverse;  // of the sum that s is relative to
  };

  NSA_DEVICE static void hide(Scores& s, int half, int visible) {
    const int column = 2 * (lane_index() & 3);
    NSA_UNROLL
    for (int j = 0; j < C::kKeys / 8; ++j) {
      NSA_UNROLL
      for (int e = 0; e < 2; ++e) {
        if (8 * j + column + e >= visible) s[j][2 * half + e] = minus_infinity();
      }
    }
  }

  // s becomes probabilities times the sum.
  NSA_DEVICE RowSum soften(Scores& s, int half) const {
    float largest = largest_of<C::kKeys>(s, half);
    largest = fmaxf(largest, shuffle_xor(largest, 1));
    largest = fmaxf(largest, shuffle_xor(largest, 2));
    const float base = largest == minus_infinity() ? 0.0F : largest * p.common.scale_log2;
    float sum = raise<C::kKeys>(s, half, p.common.scale_log2, base);
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if (sum == 0.0F) return {minus_infinity(), 0.0F};
    return {base + log2_fast(sum), reciprocal_fast(sum)};
  }

  NSA_DEVICE void attend(int first, int buffer) const {
    const Common& c = p.common;
    const int warp = warp_index();
    Scores s;
    X::begin();
    X::template product<E, C::kKeys, C::kDk>(
        s,
        Operand<typename C::TileQ, Major::k>{shared + C::kAtQ + buffer * C::TileQ::kBytes, 0},
        Operand<typename C::TileK, Major::k>{shared, 0},
        warp);
    X::commit();
    X::template wait<0>(s);
    if (C::kBuffers == 1 && first + C::kRows < list.rows) {
      block_sync();
      load_rows(first + C::kRows, 0);
    }
    // Queries ascend in a list: what the first one sees, all do.
    const int all_seen = smaller(keys.end, c.sequences.first + list.at(first).query + 1);
    ListRow row[2];
    RowSum sum[2];
    bool valid[2];
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = first + warp * 16 + (lane_index() >> 2) + 8 * half;
      valid[half] = r < list.rows;
      row[half] = list.at(valid[half] ? r : 0);
      if (all_seen < keys.first + C::kKeys) {
        hide(s, half, smaller(keys.end, c.sequences.first + row[half].query + 1) - keys.first);
      }
      sum[half] = soften(s, half);
    }
    std::uint32_t probabilities[C::kKeys / 16][4];
    as_left<E, C::kKeys>(s, probabilities);
    float o[C::kDv / 8][4];
    X::begin(probabilities);
    X::template product_held<E, C::kDv, C::kKeys>(
        o, probabilities, Operand<typename C::TileV, Major::mn>{shared + C::kAtV, 0}, warp);
    X::commit();
    X::template wait<0>(o, probabilities);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) store(o, half, row[half], valid[half], sum[half]);
  }

  // Not the values are divided by the sum but the size of their step.
  NSA_DEVICE void store(float (&o)[C::kDv / 8][4],
                        int half,
                        const ListRow& row,
                        bool valid,
                        const RowSum& sum) const {
    const std::int64_t at = row.part;
    const float step = store_part<typename C::Parts, C::kDv>(
        o, half, p.parts.values + at * part_bytes<typename C::Parts>(C::kDv), valid);
    if (valid && (lane_index() & 3) == 0) {
      store_pair(p.parts.scales + 2 * at, sum.log2, step * sum.inverse);
    }
  }

  NSA_DEVICE void run() const {
    load_block_keys<C>(p, item, keys, group, shared);
    load_rows(0, 0);
    int buffer = 0;
    for (int first = 0; first < list.rows; first += C::kRows) {
      copy_wait<0>();
      X::publish();
      block_sync();
      if (C::kBuffers == 2 && first + C::kRows < list.rows) {
        load_rows(first + C::kRows, buffer ^ 1);
      }
      attend(first, buffer);
      if (C::kBuffers == 2) buffer ^= 1;
    }
  }
};

template <class C>
NSA_KERNEL(C::kThreads, C::kBlocks)
selected_forward(NSA_PARAMETER SelectedParams p) {
  NSA_SHARED(shared_memory);
  const int group = p.parts.first_group + block_y();
  const ListItem* found = p.item(group, block_x());
  if (found == nullptr) return;
  const std::uint32_t shared = shared_address(shared_memory);
  const ListItem item = *found;
  load_entries(p, group, item, shared + C::kAtEntries, C::kThreads);
  block_sync();
  const SelectedForwardKernel<C> kernel{p,
                                        item,
                                        {shared + C::kAtEntries,
                                         item.count * p.common.heads.divisor,
                                         p.common.sequences.begin(item.sequence),
                                         p.common.heads,
                                         p.q.position},
                                        block_keys(p.common, item),
                                        pair_rows(p.common, p.q, item.sequence, group),
                                        group,
                                        shared};
  kernel.run();
}

}  // namespace nsa::kernels
