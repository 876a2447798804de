// Sums over the threads of a block before each one, and the slots that each thread has.
#pragma once

#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

inline constexpr int kListThreads = 256;
inline constexpr int kSlotsAtOnce = 4;  // of a thread: their loads are under way together
inline constexpr int kScratchWords = 3 * (kListThreads / 32);  // of sum_before, for three numbers

// Sums before a thread, and of all threads, of kCount numbers that each has. `scratch`: kCount words for each warp.
template <int kCount>
struct BlockSums {
  int before[kCount];
  int all[kCount];
};
template <int kCount>
NSA_DEVICE BlockSums<kCount> sum_before(const int (&values)[kCount], std::uint32_t scratch) {
  const int lane = lane_index();
  const int own_warp = warp_index();
  BlockSums<kCount> sums;
  NSA_UNROLL
  for (int k = 0; k < kCount; ++k) {
    int inclusive = values[k];
    NSA_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = shuffle_up(inclusive, distance);
      if (lane >= distance) inclusive += other;
    }
    sums.before[k] = inclusive - values[k];
    sums.all[k] = inclusive;  // of the warp, in its last lane
  }
  block_sync();
  NSA_UNROLL
  for (int k = 0; k < kCount; ++k) {
    if (lane == 31) {
      store_shared(scratch + 4 * (k * (kListThreads / 32) + own_warp),
                   static_cast<std::uint32_t>(sums.all[k]));
    }
  }
  block_sync();
  NSA_UNROLL
  for (int k = 0; k < kCount; ++k) {
    sums.all[k] = 0;
    NSA_UNROLL
    for (int warp = 0; warp < kListThreads / 32; ++warp) {
      const int of_warp =
          static_cast<int>(load_shared(scratch + 4 * (k * (kListThreads / 32) + warp)));
      if (warp < own_warp) sums.before[k] += of_warp;
      sums.all[k] += of_warp;
    }
  }
  return sums;
}

// The slots of a thread: as many in a row as all threads need to have [0, end).
struct SlotShare {
  int from;
  int to;
};
NSA_DEVICE SlotShare slot_share(int end) {
  const int count = (end + kListThreads - 1) / kListThreads;
  const int from = smaller(end, thread_index() * count);
  return {from, smaller(end, from + count)};
}

// Runs `use(slot, counts[slot], more[slot])` for a thread's slots, in their order.
template <class Use>
NSA_DEVICE void each_slot(const SlotShare& share,
                          const int* counts,
                          const int* more,
                          const Use& use) {
  for (int first = share.from; first < share.to; first += kSlotsAtOnce) {
    int count[kSlotsAtOnce];
    int other[kSlotsAtOnce];
    NSA_UNROLL
    for (int i = 0; i < kSlotsAtOnce; ++i) {
      const int slot = smaller(first + i, share.to - 1);
      count[i] = counts[slot];
      other[i] = more[slot];
    }
    NSA_UNROLL
    for (int i = 0; i < kSlotsAtOnce; ++i) {
      if (first + i < share.to) use(first + i, count[i], other[i]);
    }
  }
}

}  // namespace nsa::kernels
