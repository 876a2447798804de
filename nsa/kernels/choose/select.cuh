// Choice of blocks: a warp for each query and group. The best candidate is found n times over: each lane knows the best ones of
// its own that are not taken, the warp takes the best of all; a lane that has none left looks through its own once more.
#pragma once

#include "nsa/kernels/choose/params.h"
#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

inline constexpr int kSelectThreads = 256;

// Integers in the order of floats, a NaN below all of them; 0 is no score's.
NSA_DEVICE std::uint32_t score_order(float score) {
  if (score != score) return 1;
  const std::uint32_t bits = float_to_bits(score + 0.0F);  // one zero
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

struct Candidate {
  std::uint32_t order;
  std::uint32_t block;  // 0xffffffff: none

  NSA_DEVICE bool before(const Candidate& other) const {
    return order > other.order || (order == other.order && block < other.block);
  }
};

// The best of a lane's candidates [from + lane, end) in steps of 32 that comes after `taken` in the order of choice.
NSA_DEVICE Candidate best_after(const float* scores, int from, int end, const Candidate& taken) {
  Candidate best{0, 0xffffffffU};
  for (int block = from + lane_index(); block < end; block += 32) {
    const Candidate candidate{score_order(scores[block]), static_cast<std::uint32_t>(block)};
    if (taken.before(candidate) && candidate.before(best)) best = candidate;
  }
  return best;
}

inline constexpr int kKnown = 3;  // best ones that a lane knows

// The best of a lane's candidates [from + lane, end) in steps of 32, in the order of choice.
NSA_DEVICE void best_ones(const float* scores, int from, int end, Candidate (&best)[kKnown]) {
  NSA_UNROLL
  for (int i = 0; i < kKnown; ++i) best[i] = {0, 0xffffffffU};
  for (int block = from + lane_index(); block < end; block += 32) {
    const Candidate next{score_order(scores[block]), static_cast<std::uint32_t>(block)};
    // Blocks come in ascending order: of equal scores the first one stays before.
    bool before[kKnown];
    NSA_UNROLL
    for (int i = 0; i < kKnown; ++i) before[i] = next.order > best[i].order;
    NSA_UNROLL
    for (int i = kKnown - 1; i >= 0; --i) {
      const bool moves = i > 0 && before[larger(i - 1, 0)];
      const Candidate other = moves ? best[larger(i - 1, 0)] : next;
      if (before[i]) best[i] = other;
    }
  }
}

// Writes the list of one query.
NSA_DEVICE void select_blocks(const Geometry& g, int t, const float* scores, std::int32_t* blocks) {
  const int lane = lane_index();
  const int current = t / g.l_sel;
  const int locals_begin = larger(0, current - g.local_blocks + 1);
  const int initials = smaller(smaller(g.init_blocks, current + 1), locals_begin);
  const int locals = current + 1 - locals_begin;
  const int candidates = g.candidate_count(t);
  const int places = g.n_sel - initials - locals;
  const int taken = smaller(places, candidates);
  int mine = -1;  // the block that this lane's number was chosen with
  if (candidates <= places) {
    if (lane < taken) mine = g.init_blocks + lane;
  } else {
    const int end = g.init_blocks + candidates;
    Candidate best[kKnown];
    best_ones(scores, g.init_blocks, end, best);
    for (int i = 0; i < taken; ++i) {
      const std::uint32_t order = warp_largest(best[0].order);
      const std::uint32_t block =
          warp_smallest(best[0].order == order ? best[0].block : 0xffffffffU);
      if (lane == i) mine = static_cast<int>(block);
      if (best[0].block != block || best[0].order != order) continue;
      const Candidate last = best[0];
      NSA_UNROLL
      for (int k = 0; k + 1 < kKnown; ++k) best[k] = best[k + 1];
      best[kKnown - 1] = {0, 0xffffffffU};
      if (best[0].block == 0xffffffffU) best[0] = best_after(scores, g.init_blocks, end, last);
    }
  }
  int rank = 0;
  for (int i = 0; i < taken; ++i) {
    if (shuffle(mine, i) < mine) ++rank;
  }
  if (lane < taken) blocks[initials + rank] = mine;
  if (lane < initials) blocks[lane] = lane;
  const int count = initials + taken + locals;
  if (lane < locals) blocks[initials + taken + lane] = locals_begin + lane;
  if (lane >= count && lane < g.n_sel) blocks[lane] = -1;
}

NSA_KERNEL(kSelectThreads, 1)
select_best(NSA_PARAMETER SelectParams p) {
  const Common& c = p.common;
  const int token = p.from + block_x() * (kSelectThreads / 32) + warp_index();
  if (token >= p.to) return;
  const int b = c.sequences.find(token, [&](int i) { return c.sequences.begin(i); });
  const int query = token - c.sequences.begin(b);
  const int group = block_y();
  const auto at = [&](const TensorRef& x) {
    return at_sequence(x, c.sequences, b) + group * x.head + query * x.position;
  };
  select_blocks(c.geometry,
                c.sequences.first + query,
                reinterpret_cast<const float*>(at(p.scores)),
                reinterpret_cast<std::int32_t*>(at(p.blocks)));
}

}  // namespace nsa::kernels
