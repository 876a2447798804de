// Choice of blocks: a warp for each query and group. Scores become integers in their order, and the score of the last block that
// has a place is found by halving: the number of candidates that reach a bound is counted until it is that of the places. Of equal
// scores at the bound the first blocks are taken.
#pragma once

#include "nsa/kernels/choose/params.h"
#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

inline constexpr int kSelectThreads = 256;

// Integers in the order of floats, a NaN as minus infinity; 0 is no score's.
NSA_DEVICE std::uint32_t score_order(float score) {
  if (score != score) score = minus_infinity();
  const std::uint32_t bits = float_to_bits(score + 0.0F);  // one zero
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Candidates of one query: the blocks [from, end); a lane has every 32nd of them.
struct Candidates {
  const float* scores;
  int from;
  int end;

  [[nodiscard]] NSA_DEVICE int block(int k) const { return from + 32 * k + lane_index(); }
  // 0: there is none.
  [[nodiscard]] NSA_DEVICE std::uint32_t order(int k) const {
    return block(k) < end ? score_order(scores[block(k)]) : 0;
  }
};

// A lane's candidates in registers, kMost of them at most.
template <int kMost>
class HeldOrders {
 public:
  NSA_DEVICE explicit HeldOrders(const Candidates& all) {
    NSA_UNROLL
    for (int k = 0; k < kMost; ++k) orders_[k] = all.order(k);
  }
  template <class Use>
  NSA_DEVICE void each(const Use& use) const {
    NSA_UNROLL
    for (int k = 0; k < kMost; ++k) use(k, orders_[k]);
  }

 private:
  std::uint32_t orders_[kMost];
};

// The same, read from memory each time: where there are too many.
class ReadOrders {
 public:
  NSA_DEVICE explicit ReadOrders(const Candidates& all) : all_(all) {}
  template <class Use>
  NSA_DEVICE void each(const Use& use) const {
    for (int k = 0; all_.from + 32 * k < all_.end; ++k) use(k, all_.order(k));
  }

 private:
  Candidates all_;
};

template <class Orders>
NSA_DEVICE int count_from(const Orders& orders, std::uint32_t bound) {
  std::uint32_t reached = 0;
  orders.each([&](int, std::uint32_t order) { reached += order >= bound ? 1U : 0U; });
  return static_cast<int>(warp_sum(reached));
}

// What is taken: orders above `bound`, and the first `equal` of those that are equal to it.
struct Choice {
  std::uint32_t bound;
  int equal;
};

// An order that at least as many candidates reach as there are places: what each lane's best reaches, or the least of all. There
// are at most 32 places.
template <class Orders>
NSA_DEVICE std::uint32_t reached_by_enough(const Orders& orders, std::uint32_t best_of_lane) {
  const std::uint32_t of_all = warp_smallest(best_of_lane);
  if (of_all != 0) return of_all;
  std::uint32_t least = 0xffffffffU;
  orders.each([&](int, std::uint32_t order) {
    if (order != 0 && order < least) least = order;
  });
  return warp_smallest(least);
}

// Of more candidates than places, places > 0.
template <class Orders>
NSA_DEVICE Choice find_choice(const Orders& orders, int places) {
  std::uint32_t best = 0;
  orders.each([&](int, std::uint32_t order) { best = order > best ? order : best; });
  // At least as many as the places reach `low`; fewer reach `high`, namely `above`.
  std::uint32_t low = reached_by_enough(orders, best);
  std::uint32_t high = warp_largest(best) + 1;
  int above = 0;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const int reached = count_from(orders, middle);
    if (reached == places) return {middle - 1, 0};
    if (reached > places) {
      low = middle;
    } else {
      high = middle;
      above = reached;
    }
  }
  return {low, places - above};
}

// Writes the chosen blocks, ascending.
template <class Orders>
NSA_DEVICE void write_choice(const Orders& orders,
                             const Choice& choice,
                             int from,
                             std::int32_t* blocks) {
  const std::uint32_t before = (1U << lane_index()) - 1;
  int written = 0;
  int equal = 0;  // seen
  orders.each([&](int k, std::uint32_t order) {
    bool taken = order > choice.bound;
    if (choice.equal > 0) {
      const bool is_equal = order == choice.bound;
      const std::uint32_t all_equal = warp_ballot(is_equal);
      taken = taken || (is_equal && equal + bit_count(all_equal & before) < choice.equal);
      equal += bit_count(all_equal);
    }
    const std::uint32_t all_taken = warp_ballot(taken);
    if (taken) blocks[written + bit_count(all_taken & before)] = from + 32 * k + lane_index();
    written += bit_count(all_taken);
  });
}

template <class Orders>
NSA_DEVICE void choose_blocks(const Candidates& all, int places, std::int32_t* blocks) {
  const Orders orders(all);
  write_choice(orders, find_choice(orders, places), all.from, blocks);
}

// Of more candidates than places.
NSA_DEVICE void choose_best(const Candidates& all, int places, std::int32_t* blocks) {
  const int most = (all.end - all.from + 31) / 32;  // of a lane
  if (most == 1) {
    choose_blocks<HeldOrders<1>>(all, places, blocks);
  } else if (most == 2) {
    choose_blocks<HeldOrders<2>>(all, places, blocks);
  } else if (most <= 4) {
    choose_blocks<HeldOrders<4>>(all, places, blocks);
  } else if (most <= 8) {
    choose_blocks<HeldOrders<8>>(all, places, blocks);
  } else if (most <= 16) {
    choose_blocks<HeldOrders<16>>(all, places, blocks);
  } else if (most <= 32) {
    choose_blocks<HeldOrders<32>>(all, places, blocks);
  } else {
    choose_blocks<ReadOrders>(all, places, blocks);
  }
}

// Writes the list of the query at position t.
NSA_DEVICE void select_blocks(const SelectParams& p,
                              int t,
                              const float* scores,
                              std::int32_t* blocks) {
  const Geometry& g = p.common.geometry;
  const int lane = lane_index();
  const int current = p.by_block.quotient(t);
  const int locals_begin = larger(0, current - g.local_blocks + 1);
  const int initials = smaller(smaller(g.init_blocks, current + 1), locals_begin);
  const int locals = current + 1 - locals_begin;
  const int end = candidates_end(g, p.by_block, t);
  const int candidates = larger(0, end - g.init_blocks);
  const int places = g.n_sel - initials - locals;
  const int taken = smaller(places, candidates);
  if (candidates <= places) {
    if (lane < taken) blocks[initials + lane] = g.init_blocks + lane;
  } else if (places > 0) {
    choose_best({scores, g.init_blocks, end}, places, blocks + initials);
  }
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
  select_blocks(p,
                c.sequences.first + query,
                reinterpret_cast<const float*>(at(p.scores)),
                reinterpret_cast<std::int32_t*>(at(p.blocks)));
}

}  // namespace nsa::kernels
