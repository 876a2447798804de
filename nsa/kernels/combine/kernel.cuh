// Kernels of combine/params.h: a warp for each query and group, 2 to 16 lanes for each of its rows.
#pragma once

#include "nsa/kernels/attend/gates.h"
#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/combine/params.h"
#include "nsa/kernels/common/sums.cuh"

namespace nsa::kernels {

inline constexpr int kCombineThreads = 256;

struct CombinePlace {
  int sequence;
  int query;  // within the sequence
  int lanes;  // of a row
  int chunk;  // of this lane, the first one
  int slot;   // row of this lane among those in one pass
};

// `chunks`: that each lane has of a row, as many apart as the row has lanes.
NSA_DEVICE CombinePlace combine_place(const Common& c, int token, int chunks) {
  const int b = c.sequences.find(token, [&](int i) { return c.sequences.begin(i); });
  const int lanes = (c.v_chunks > 8 ? 16 : (c.v_chunks > 4 ? 8 : 4)) / chunks;
  return {b, token - c.sequences.begin(b), lanes, lane_index() % lanes, lane_index() / lanes};
}

template <class E>
NSA_KERNEL(kCombineThreads, 1)
combine_branches(NSA_PARAMETER CombineParams p) {
  const Common& c = p.common;
  const int token = block_x() * (kCombineThreads / 32) + warp_index();
  if (token >= c.tokens) return;
  const CombinePlace place = combine_place(c, token, 1);
  const int group = block_y();
  const int heads = c.heads.divisor;
  for (int head = place.slot; head < heads; head += 32 / place.lanes) {
    if (place.chunk >= c.v_chunks) continue;
    const int row = place.query * heads + head;
    const Gates gates = read_gates<E>(c, p.gates, place.sequence, group, row);
    const float weights[3] = {gates.cmp, gates.sel, gates.win};
    Eight sum{};
    NSA_UNROLL
    for (int k = 0; k < 3; ++k) {
      const Eight o = load_eight<E>(pair_rows(c, p.branches[k], place.sequence, group).row(row) +
                                    place.chunk * 16);
      NSA_UNROLL
      for (int i = 0; i < 8; ++i) sum.x[i] += weights[k] * o.x[i];
    }
    store_eight<E>(
        const_cast<char*>(pair_rows(c, p.o, place.sequence, group).row(row)) + place.chunk * 16,
        sum);
  }
}

inline constexpr int kGradientChunks =
    2;  // of a lane: a lane more for each row is a round of sums more

template <class E>
NSA_KERNEL(kCombineThreads, 3)
combine_gradient(NSA_PARAMETER CombineGradientParams p) {
  const Common& c = p.common;
  const int token = block_x() * (kCombineThreads / 32) + warp_index();
  if (token >= c.tokens) return;
  const CombinePlace place = combine_place(c, token, kGradientChunks);
  const int group = block_y();
  const int heads = c.heads.divisor;
  const int rows_at_once = 32 / place.lanes;
  float gate_sum[3] = {};
  for (int first = 0; first < heads; first += rows_at_once) {
    const bool valid = first + place.slot < heads;
    const int head = valid ? first + place.slot : 0;
    const int row = place.query * heads + head;
    const auto at = [&](const TensorRef& x) {
      return pair_rows(c, x, place.sequence, group).of(place.query, head) + place.chunk * 16;
    };
    // All loads first: each waits for memory. What there is not is zeros.
    Words4 d_o[kGradientChunks] = {};
    Words4 o[kGradientChunks][3] = {};
    bool reads[kGradientChunks];
    NSA_UNROLL
    for (int i = 0; i < kGradientChunks; ++i) {
      reads[i] = valid && place.chunk + i * place.lanes < c.v_chunks;
      if (!reads[i]) continue;
      NSA_UNROLL
      for (int k = 0; k < 3; ++k) {
        const TensorRef& branch = p.branches[k < p.branch_count ? k : 0];
        o[i][k] = load_global16(at(branch) + i * place.lanes * 16);
      }
      d_o[i] = load_global16(at(p.d_o) + i * place.lanes * 16);
    }
    float weights[3] = {1.0F, 1.0F, 1.0F};
    if (p.gates.values.data != nullptr) {
      const Gates gates = read_gates<E>(c, p.gates, place.sequence, group, row);
      weights[0] = gates.cmp;
      weights[1] = gates.sel;
      weights[2] = gates.win;
    }
    float sums[3] = {};
    NSA_UNROLL
    for (int i = 0; i < kGradientChunks; ++i) {
      const Eight d = unpacked<E>(d_o[i]);
      NSA_UNROLL
      for (int k = 0; k < 3; ++k) {
        if (k >= p.branch_count) break;
        const Eight branch = unpacked<E>(o[i][k]);
        NSA_UNROLL
        for (int j = 0; j < 8; ++j) sums[k] += d.x[j] * branch.x[j];
        if (p.d_branches[k].data == nullptr || !reads[i]) continue;
        Eight d_branch;
        NSA_UNROLL
        for (int j = 0; j < 8; ++j) d_branch.x[j] = weights[k] * d.x[j];
        store_eight<E>(const_cast<char*>(at(p.d_branches[k])) + i * place.lanes * 16, d_branch);
      }
    }
    NSA_UNROLL
    for (int k = 0; k < 3; ++k) {
      if (k >= p.branch_count) break;
      float x = sums[k];
      NSA_UNROLL
      for (int distance = 8 / kGradientChunks; distance >= 1; distance /= 2) {
        const float other = shuffle_xor(x, distance);
        if (distance < place.lanes) x += other;
      }
      if (!valid) continue;
      gate_sum[k] += x;
      if (place.chunk != 0) continue;
      if (p.gate_delta[k] != nullptr) {
        store_pair(p.gate_delta[k] + 2 * c.row_index(group, place.sequence, row),
                   weights[k],
                   weights[k] * x);
      }
      if (p.d_gates.values.data != nullptr && p.d_gates.per_head) {
        write_number<E>(gates_at(c, p.d_gates, place.sequence, group, row) + k * p.d_gates.branch,
                        p.d_gates.is_float,
                        x);
      }
    }
  }
  if (p.d_gates.values.data == nullptr || p.d_gates.per_head) return;
  NSA_UNROLL
  for (int k = 0; k < 3; ++k) {
    NSA_UNROLL
    for (int distance = 16; distance >= 4 / kGradientChunks; distance /= 2) {
      const float other = shuffle_xor(gate_sum[k], distance);
      if (distance >= place.lanes) gate_sum[k] += other;
    }
    if (lane_index() == 0) {
      write_number<E>(
          gates_at(c, p.d_gates, place.sequence, group, place.query * heads) + k * p.d_gates.branch,
          p.d_gates.is_float,
          gate_sum[k]);
    }
  }
}

inline constexpr int kKeyResultThreads = 128;

template <class E>
NSA_KERNEL(kKeyResultThreads, 1)
key_results(NSA_PARAMETER KeyResultParams p) {
  const Common& c = p.common;
  const int chunks = c.k_chunks + c.v_chunks;
  const std::int64_t at = static_cast<std::int64_t>(block_x()) * kKeyResultThreads + thread_index();
  const KeyPlace place = key_place(c, at / chunks, p.stride);
  const int b = place.sequence;
  if (place.key >= keys_of(c, b, p.stride)) return;
  const int chunk = static_cast<int>(at % chunks);
  const int group = block_y();
  const int z = block_z();
  const bool is_k = chunk < c.k_chunks;
  const int of_tensor = is_k ? chunk : chunk - c.k_chunks;
  const int column = (is_k ? 0 : p.k_columns) + of_tensor * 8;
  const int columns = p.k_columns + p.v_columns;
  Eight sum{};
  KeySums(p.first[z], c, group, b, place.key, columns).add_to(sum, column);
  KeySums(p.second[z], c, group, b, place.key, columns).add_to(sum, column);
  const TensorRef& to = is_k ? p.d_k[z] : p.d_v[z];
  store_eight<E>(at_sequence(to, c.sequences, b, p.stride) + group * to.head +
                     place.key * to.position + of_tensor * 16,
                 sum);
}

}  // namespace nsa::kernels
