// The groups of four warps of a block fill tiles of shared memory together and use them at their own pace: one waits for what
// the others have copied, not for them to be where it is, so that one group computes while another one multiplies.
#pragma once

#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

// Turns 0, 1, ..: every group gives each one once and then takes it. Barriers of two turns alternate: a group that gives a turn
// has taken the one before, which the others gave after they had taken the one before that.
template <int kGroups>
struct Handover {
  static_assert(kGroups >= 1 && kGroups <= 3, "a card has 16 barriers");
  int group;

  // This group's part of a turn is there, for all proxies.
  NSA_DEVICE void give(int turn) const {
    NSA_UNROLL
    for (int other = 1; other < kGroups; ++other) {
      named_arrive(barrier(group, (group + other) % kGroups, turn), 256);
    }
  }
  // Waits until all parts of a turn are there.
  NSA_DEVICE void take(int turn) const {
    named_sync(1 + group, 128);
    NSA_UNROLL
    for (int other = 1; other < kGroups; ++other) {
      named_sync(barrier((group + other) % kGroups, group, turn), 256);
    }
  }

 private:
  NSA_DEVICE static int barrier(int from, int to, int turn) {
    const int pair = from * (kGroups - 1) + (to < from ? to : to - 1);
    return 1 + kGroups + 2 * pair + (turn & 1);
  }
};

}  // namespace nsa::kernels
