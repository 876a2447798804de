// Backward kernel of selected/params.h: four warps keep 64 keys and pass through the rows of a list, 64 at a time. dk and dv
// stay in registers and are added to the block's sums, item after item; dq of each row and block is a part. As in
// key_gradient.cuh tiles are keys by rows; ds is turned for dq through shared memory.
#pragma once

#include "nsa/kernels/common/part.h"
#include "nsa/kernels/selected/list_rows.cuh"

namespace nsa::kernels {

// Parts: how a part is kept (common/part.h).
template <class E_, int kDk_, int kDv_, class X_, class Parts_>
struct SelectedBackwardConfig {
  using E = E_;
  using Parts = Parts_;
  using X = X_;
  static constexpr int kDk = kDk_;
  static constexpr int kDv = kDv_;
  static constexpr int kKeys = 64;
  static constexpr int kRows = 64;
  static constexpr int kThreads = 128;
  static constexpr int kBlocks = kDk <= 64 ? 3 : 2;  // of a multiprocessor: bounds registers
  using TileK = Tile<kKeys, kDk>;
  using TileV = Tile<kKeys, kDv>;
  using TileQ = Tile<kRows, kDk>;
  using TileO = Tile<kRows, kDv>;
  using TileS = Tile<kKeys, kRows>;
  static constexpr int kNumberBytes = kRows * 12;  // lse, gate and delta of each row
  static constexpr int kStageBytes = TileQ::kBytes + TileO::kBytes;
  static constexpr int kAtV = TileK::kBytes;
  static constexpr int kAtS = kAtV + TileV::kBytes;
  static constexpr int kAtRows = kAtS + TileS::kBytes;
  static constexpr int kAtNumbers = kAtRows + 2 * kStageBytes;
  static constexpr int kAtEntries = kAtNumbers + 2 * kNumberBytes;
  static constexpr int kSharedBytes = kAtEntries + kEntryBytes * kMostItemEntries;
  static_assert(kSharedBytes <= 163 * 1024, "an A100's block has 163 KiB of shared memory");
};

template <class C>
struct SelectedBackwardKernel {
  using E = typename C::E;
  using X = typename C::X;
  using Scores = float[C::kRows / 8][4];

  const SelectedParams& p;
  ListItem item;
  ListRows list;
  BlockKeys keys;
  PairRows q_rows;
  PairRows o_rows;
  int group;
  int warp;
  std::uint32_t shared;

  NSA_DEVICE void load_rows(int first, int buffer) const {
    const Common& c = p.common;
    const std::uint32_t q = shared + C::kAtRows + buffer * C::kStageBytes;
    copy_list_rows<typename C::TileQ, typename C::TileO, C::kThreads>(
        q, q_rows, c.k_chunks, q + C::TileQ::kBytes, o_rows, c.v_chunks, list, first);
    const int r = thread_index();
    if (r < C::kRows) {
      const std::uint32_t numbers = shared + C::kAtNumbers + buffer * C::kNumberBytes;
      const bool valid = first + r < list.rows;
      const ListRow row = list.at(valid ? first + r : 0);
      const std::int64_t at =
          (static_cast<std::int64_t>(group) * c.tokens + row.token) * c.heads.divisor + row.head;
      copy4(numbers + 4 * r, p.lse + at, valid);
      copy8(numbers + 4 * C::kRows + 8 * r, p.gate_delta + 2 * at, valid);
    }
  }

  // st: logits become ds; dpt: d_o . v becomes g p. Keys by rows; rows after the list's end have gate and delta 0.
  template <bool kMasked>
  NSA_DEVICE void differentiate(Scores& st, Scores& dpt, int first, int buffer) const {
    const Common& c = p.common;
    const std::uint32_t lse = shared + C::kAtNumbers + buffer * C::kNumberBytes;
    const std::uint32_t gate_delta = lse + 4 * C::kRows;
    const int key = keys.first + warp * 16 + (lane_index() >> 2);
    NSA_UNROLL
    for (int j = 0; j < C::kRows / 8; ++j) {
      const int column = 8 * j + 2 * (lane_index() & 3);
      const Pair sums = load_shared_pair(lse + 4 * column);
      const Words4 words = load_shared16(gate_delta + 8 * column);
      NSA_UNROLL
      for (int e = 0; e < 2; ++e) {
        const float log2_sum = (e == 0 ? sums.x : sums.y) * kLog2E;
        const float gate = bits_to_float(e == 0 ? words.x : words.z);
        const float delta = bits_to_float(e == 0 ? words.y : words.w);
        int end = 0;
        if constexpr (kMasked) {
          const int r = first + column + e;
          const ListRow row = list.at(r < list.rows ? r : 0);
          end = smaller(keys.end, c.sequences.first + row.query + 1);
        }
        NSA_UNROLL
        for (int half = 0; half < 2; ++half) {
          float& x = st[j][2 * half + e];
          float& y = dpt[j][2 * half + e];
          float probability = exp2_fast(x * c.scale_log2 - log2_sum);
          if constexpr (kMasked) {
            if (key + 8 * half >= end) probability = 0.0F;
          }
          x = probability * (gate * y - delta);
          y = probability * gate;
        }
      }
    }
  }

  // ds to shared memory, keys by rows.
  NSA_DEVICE void store_ds(const std::uint32_t (&left)[C::kRows / 16][4]) const {
    const int key = warp * 16 + (lane_index() >> 2);
    const std::uint32_t column = (lane_index() & 3) * 4;
    NSA_UNROLL
    for (int k = 0; k < C::kRows / 16; ++k) {
      const std::uint32_t tile = shared + C::kAtS + column;
      store_shared(tile + C::TileS::at(key, 2 * k), left[k][0]);
      store_shared(tile + C::TileS::at(key + 8, 2 * k), left[k][1]);
      store_shared(tile + C::TileS::at(key, 2 * k + 1), left[k][2]);
      store_shared(tile + C::TileS::at(key + 8, 2 * k + 1), left[k][3]);
    }
  }

  // ds^T k; it is there after X::wait.
  NSA_DEVICE void begin_dq(float (&dq)[C::kDk / 8][4]) const {
    X::begin();
    X::template product<E, C::kDk, C::kKeys>(
        dq,
        Operand<typename C::TileS, Major::mn>{shared + C::kAtS, 0},
        Operand<typename C::TileK, Major::mn>{shared, 0},
        warp);
    X::commit();
  }

  NSA_DEVICE void store_dq(float (&dq)[C::kDk / 8][4], int first) const {
    const Common& c = p.common;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = first + warp * 16 + (lane_index() >> 2) + 8 * half;
      const bool valid = r < list.rows;
      const ListRow row = list.at(valid ? r : 0);
      const std::int64_t at = row.part;
      const float step = store_part<typename C::Parts, C::kDk>(
          dq, half, p.parts.values + at * part_bytes<typename C::Parts>(C::kDk), valid);
      if (valid && (lane_index() & 3) == 0) {
        store_pair(p.parts.scales + 2 * at, 0.0F, step * c.scale);
      }
    }
  }

  NSA_DEVICE void pass(int first,
                       int buffer,
                       float (&dk)[C::kDk / 8][4],
                       float (&dv)[C::kDv / 8][4]) const {
    const Common& c = p.common;
    const std::uint32_t q = shared + C::kAtRows + buffer * C::kStageBytes;
    const std::uint32_t d_o = q + C::TileQ::kBytes;
    float dq[C::kDk / 8][4];
    {
      std::uint32_t left_ds[C::kRows / 16][4];
      Scores st;
      Scores dpt;
      X::begin();
      X::template product<E, C::kRows, C::kDk>(st,
                                               Operand<typename C::TileK, Major::k>{shared, 0},
                                               Operand<typename C::TileQ, Major::k>{q, 0},
                                               warp);
      X::template product<E, C::kRows, C::kDv>(
          dpt,
          Operand<typename C::TileV, Major::k>{shared + C::kAtV, 0},
          Operand<typename C::TileO, Major::k>{d_o, 0},
          warp);
      X::commit();
      X::template wait<0>(st, dpt);
      // Queries ascend in a list: if the first one sees the whole block, all do.
      const int seen = c.sequences.first + list.at(first).query + 1;
      if (smaller(seen, keys.end) < keys.first + C::kKeys) {
        differentiate<true>(st, dpt, first, buffer);
      } else {
        differentiate<false>(st, dpt, first, buffer);
      }
      std::uint32_t left_p[C::kRows / 16][4];
      as_left<E, C::kRows>(dpt, left_p);
      as_left<E, C::kRows>(st, left_ds);
      store_ds(left_ds);
      X::publish();
      X::begin(left_p, left_ds, dk, dv);
      X::template multiply_held<E, C::kDv, C::kRows>(
          dv, left_p, Operand<typename C::TileO, Major::mn>{d_o, 0}, warp);
      X::template multiply_held<E, C::kDk, C::kRows>(
          dk, left_ds, Operand<typename C::TileQ, Major::mn>{q, 0}, warp);
      X::commit();
      block_sync();
      begin_dq(dq);
      X::template wait<0>(dq, dk, dv, left_p, left_ds);
    }
    store_dq(dq, first);
  }

  template <int kColumns>
  NSA_DEVICE static void load_sums(Pair (&sums)[kColumns / 8], const float* from) {
    NSA_UNROLL
    for (int j = 0; j < kColumns / 8; ++j) sums[j] = load_pair_coherent(from + 8 * j);
  }
  template <int kColumns>
  NSA_DEVICE static void store_sums(const Pair (&sums)[kColumns / 8],
                                    const float (&acc)[kColumns / 8][4],
                                    int half,
                                    float scale,
                                    float* to) {
    NSA_UNROLL
    for (int j = 0; j < kColumns / 8; ++j) {
      store_pair(to + 8 * j,
                 sums[j].x + acc[j][2 * half] * scale,
                 sums[j].y + acc[j][2 * half + 1] * scale);
    }
  }

  // Items of a block take turns, so that the order of the sum is that of the list.
  NSA_DEVICE void add_sums(const float (&dk)[C::kDk / 8][4],
                           const float (&dv)[C::kDv / 8][4]) const {
    int* turn = p.turns + static_cast<std::int64_t>(group) * p.slots + item.slot;
    if (item.turn > 0) {
      if (thread_index() == 0) wait_turn(turn, item.turn);
      block_sync();
    }
    const std::int64_t first =
        static_cast<std::int64_t>(group) * p.key_rows + p.first_row(item.sequence) + keys.first;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int key = warp * 16 + (lane_index() >> 2) + 8 * half;
      if (keys.first + key >= keys.end) continue;
      float* to = p.sums + (first + key) * (C::kDk + C::kDv) + 2 * (lane_index() & 3);
      // All loads first: each waits for memory.
      Pair sums_k[C::kDk / 8];
      Pair sums_v[C::kDv / 8];
      load_sums<C::kDk>(sums_k, to);
      load_sums<C::kDv>(sums_v, to + C::kDk);
      store_sums<C::kDk>(sums_k, dk, half, p.common.scale, to);
      store_sums<C::kDv>(sums_v, dv, half, 1.0F, to + C::kDk);
    }
    memory_fence();
    block_sync();
    if (thread_index() == 0) pass_turn(turn, item.turn);
  }

  NSA_DEVICE void run() const {
    float dk[C::kDk / 8][4];
    float dv[C::kDv / 8][4];
    clear<C::kDk>(dk);
    clear<C::kDv>(dv);
    load_block_keys<C>(p, item, keys, group, shared);
    load_rows(0, 0);
    copy_commit();
    int buffer = 0;
    for (int first = 0; first < list.rows; first += C::kRows) {
      copy_wait<0>();
      X::publish();
      block_sync();
      if (first + C::kRows < list.rows) {
        load_rows(first + C::kRows, buffer ^ 1);
        copy_commit();
      }
      pass(first, buffer, dk, dv);
      buffer ^= 1;
    }
    add_sums(dk, dv);
  }
};

template <class C>
NSA_KERNEL(C::kThreads, C::kBlocks)
selected_backward(NSA_PARAMETER SelectedParams p) {
  NSA_SHARED(shared_memory);
  const std::uint32_t shared = shared_address(shared_memory);
  const int group = p.parts.first_group + block_y();
  // Items in the order in which blocks come to run: nobody waits for a turn that has not begun.
  if (thread_index() == 0) {
    store_shared(shared, static_cast<std::uint32_t>(take_ticket(p.tickets + group)));
  }
  block_sync();
  const int index = static_cast<int>(load_shared(shared));
  block_sync();
  const ListItem* found = p.item(group, index);
  if (found == nullptr) return;
  const ListItem item = *found;
  load_entries(p, group, item, shared + C::kAtEntries, C::kThreads);
  block_sync();
  const SelectedBackwardKernel<C> kernel{p,
                                         item,
                                         {shared + C::kAtEntries,
                                          item.count * p.common.heads.divisor,
                                          p.common.sequences.begin(item.sequence),
                                          p.common.heads,
                                          p.q.position},
                                         block_keys(p.common, item),
                                         pair_rows(p.common, p.q, item.sequence, group),
                                         pair_rows(p.common, p.d_o, item.sequence, group),
                                         group,
                                         warp_index(),
                                         shared};
  kernel.run();
}

}  // namespace nsa::kernels
