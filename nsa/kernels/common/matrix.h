// Products of matrices by a group of four warps, 64 rows of results a group, 16 a warp, on tensor cores. Two instruction
// sets with one interface and one layout of results:
//   Mma    mma.sync: sm_80 and later
//   Wgmma  wgmma: sm_90a (common/wgmma.h); operands in shared memory are read by the group's matrix instruction itself
// Results: float acc[N / 8][4]; lane i holds of rows i/4 and i/4 + 8 of its warp's 16 the columns 8j + 2(i%4) and the next:
// acc[j][0], acc[j][1] in the first row, acc[j][2], acc[j][3] in the second. Left operands in registers: a[K / 16][4] as
// mma.m16n8k16 wants them, which as_left() makes of results without moving anything between lanes.
#pragma once

#include "nsa/kernels/common/tile.h"

namespace nsa::kernels {

enum class Major { k, mn };  // which index of an operand runs along a tile's columns

template <int kColumns>
NSA_DEVICE void clear(float (&acc)[kColumns / 8][4]) {
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    NSA_UNROLL
    for (int i = 0; i < 4; ++i) acc[j][i] = 0.0F;
  }
}

template <class E, int kColumns>
NSA_DEVICE void as_left(const float (&acc)[kColumns / 8][4], std::uint32_t (&a)[kColumns / 16][4]) {
  NSA_UNROLL
  for (int k = 0; k < kColumns / 16; ++k) {
    a[k][0] = pack<E>(acc[2 * k][0], acc[2 * k][1]);
    a[k][1] = pack<E>(acc[2 * k][2], acc[2 * k][3]);
    a[k][2] = pack<E>(acc[2 * k + 1][0], acc[2 * k + 1][1]);
    a[k][3] = pack<E>(acc[2 * k + 1][2], acc[2 * k + 1][3]);
  }
}

// An operand in shared memory: rows (or, Major::mn, columns) from `first` on of a tile of layout T.
template <class T_, Major kMajor_>
struct Operand {
  using T = T_;
  static constexpr Major kMajor = kMajor_;
  std::uint32_t tile;
  int first = 0;
};

struct Mma {
  // What copies and stores wrote is to be read by products after the next barrier.
  NSA_DEVICE static void publish() {}
  // Before the products of a batch; the registers that they read or add to.
  template <class... R>
  NSA_DEVICE static void begin(R&...) {}
  NSA_DEVICE static void commit() {}  // after them
  // Until at most kLeft batches are under way; the registers of those that are done.
  template <int kLeft, class... R>
  NSA_DEVICE static void wait(R&...) {}
  // All warps of group `group` of the block are done with reading left operands from shared memory.
  template <int kGroups>
  NSA_DEVICE static void settle(int /*group*/) {}

  // acc = a b^T over kDepth; a: 64 rows, b: kColumns of them.
  template <class E, int kColumns, int kDepth, class A, class B>
  NSA_DEVICE static void product(float (&acc)[kColumns / 8][4], const A& a, const B& b, int warp) {
    clear<kColumns>(acc);
    NSA_UNROLL
    for (int k = 0; k < kDepth / 16; ++k) {
      std::uint32_t left[4];
      load_left<A>(left, a, warp * 16, k);
      step<E, kColumns>(acc, left, b, k);
    }
  }
  // With a left operand in registers; acc += a b^T.
  template <class E, int kColumns, int kDepth, class B>
  NSA_DEVICE static void multiply_held(float (&acc)[kColumns / 8][4],
                                       const std::uint32_t (&a)[kDepth / 16][4],
                                       const B& b,
                                       int /*warp*/) {
    NSA_UNROLL
    for (int k = 0; k < kDepth / 16; ++k) step<E, kColumns>(acc, a[k], b, k);
  }

  template <class E, int kColumns, int kDepth, class B>
  NSA_DEVICE static void product_held(float (&acc)[kColumns / 8][4],
                                      const std::uint32_t (&a)[kDepth / 16][4],
                                      const B& b,
                                      int warp) {
    clear<kColumns>(acc);
    multiply_held<E, kColumns, kDepth>(acc, a, b, warp);
  }

 private:
  template <class A>
  NSA_DEVICE static void load_left(std::uint32_t (&left)[4], const A& a, int row, int k) {
    const int lane = lane_index();
    if constexpr (A::kMajor == Major::k) {
      load_matrices(left, a.tile + A::T::at(a.first + row + (lane & 15), 2 * k + (lane >> 4)));
    } else {
      load_matrices_transposed(left,
                               a.tile + A::T::at(k * 16 + (lane >> 4) * 8 + (lane & 7),
                                                 (a.first + row) / 8 + ((lane >> 3) & 1)));
    }
  }
  template <class E, int kColumns, class B>
  NSA_DEVICE static void step(float (&acc)[kColumns / 8][4],
                              const std::uint32_t (&left)[4],
                              const B& b,
                              int k) {
    const int lane = lane_index();
    NSA_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t right[4];
      if constexpr (B::kMajor == Major::k) {
        load_matrices(right,
                      b.tile + B::T::at(b.first + n * 16 + (lane >> 4) * 8 + (lane & 7),
                                        2 * k + ((lane >> 3) & 1)));
      } else {
        load_matrices_transposed(
            right, b.tile + B::T::at(k * 16 + (lane & 15), b.first / 8 + 2 * n + (lane >> 4)));
      }
      multiply_tile<E>(acc[2 * n], left, right[0], right[1]);
      multiply_tile<E>(acc[2 * n + 1], left, right[2], right[3]);
    }
  }
};

}  // namespace nsa::kernels
