// Kernels of lists/params.h.
#pragma once

#include "nsa/kernels/common/device.h"
#include "nsa/kernels/lists/params.h"

namespace nsa::kernels {

inline constexpr int kListThreads = 256;
inline constexpr int kItemBlocks = 8;    // that make the items of one range and group
inline constexpr int kFillQueries = 64;  // whose slots are in shared memory together

// A query of a strip, with the sequence it belongs to.
struct StripQuery {
  int sequence;
  int query;  // within the sequence
  const std::int32_t* picks;
};

NSA_DEVICE StripQuery strip_query(const ListParams& p, int group, int token, int sequence) {
  const Sequences& all = p.common.sequences;
  while (sequence + 1 < all.count && all.begin(sequence + 1) <= token) ++sequence;
  const int query = token - all.begin(sequence);
  return {sequence,
          query,
          reinterpret_cast<const std::int32_t*>(at_sequence(p.blocks, all, sequence) +
                                                group * p.blocks.head + query * p.blocks.position)};
}

// Slot of a pick within the window; -1 where it is in no list.
NSA_DEVICE int listed_slot(const ListParams& p, const StripQuery& q, int pick, int window_begin) {
  const Common& c = p.common;
  const int block = q.picks[pick];
  const int previous = pick > 0 ? q.picks[pick - 1] : -1;
  const int position = c.sequences.first + q.query;
  if (!is_listed(c.geometry, p.forced_apart, position, block, previous)) return -1;
  return static_cast<int>(block_slot(c.geometry, c.sequences, q.sequence)) + block - window_begin;
}

NSA_KERNEL(kListThreads, 1)
count_picks(NSA_PARAMETER ListParams p) {
  NSA_SHARED(shared);
  const std::uint32_t counters = shared_address(shared);
  const Common& c = p.common;
  const int from = block_x() * p.strip;
  const int to = smaller(from + p.strip, c.tokens);
  const SlotWindow window = slot_window(c, from, to);
  for (int i = thread_index(); i < window.end - window.begin; i += kListThreads) {
    store_shared(counters + 4 * i, 0);
  }
  block_sync();
  const int n = c.geometry.n_sel;
  const int first_sequence = c.sequences.find(from, [&](int b) { return c.sequences.begin(b); });
  for (int i = thread_index(); i < (to - from) * n; i += kListThreads) {
    const StripQuery query = strip_query(p, block_y(), from + i / n, first_sequence);
    const int slot = listed_slot(p, query, i % n, window.begin);
    if (slot >= 0) count_one(counters + 4 * slot);
  }
  block_sync();
  int* out = p.count(block_y(), block_x());
  for (int i = thread_index(); i < p.slots; i += kListThreads) {
    const bool inside = i >= window.begin && i < window.end;
    out[i] = inside ? static_cast<int>(load_shared(counters + 4 * (i - window.begin))) : 0;
  }
}

// Counts of a block become the entries before each strip.
NSA_KERNEL(kListThreads, 1)
sum_strips(NSA_PARAMETER ListParams p) {
  const int slot = block_x() * kListThreads + thread_index();
  if (slot >= p.slots) return;
  int* at = p.count(block_y(), 0) + slot;
  int sum = 0;
  constexpr int kBatch = 32;  // loads under way
  for (int strip = 0; strip < p.strips; strip += kBatch) {
    int counted[kBatch];
    NSA_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      counted[i] = strip + i < p.strips ? at[static_cast<std::int64_t>(strip + i) * p.slots] : 0;
    }
    NSA_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      if (strip + i < p.strips) at[static_cast<std::int64_t>(strip + i) * p.slots] = sum;
      sum += counted[i];
    }
  }
  at[static_cast<std::int64_t>(p.strips) * p.slots] = sum;
}

// Sums before a thread, and of all threads. `scratch`: a word for each warp.
struct BlockSum {
  int before;
  int all;
};
NSA_DEVICE BlockSum sum_before(int value, std::uint32_t scratch) {
  const int lane = lane_index();
  const int own_warp = warp_index();
  int inclusive = value;
  NSA_UNROLL
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = shuffle_up(inclusive, distance);
    if (lane >= distance) inclusive += other;
  }
  block_sync();
  if (lane == 31) store_shared(scratch + 4 * own_warp, static_cast<std::uint32_t>(inclusive));
  block_sync();
  BlockSum sum{inclusive - value, 0};
  NSA_UNROLL
  for (int warp = 0; warp < kListThreads / 32; ++warp) {
    const int of_warp = static_cast<int>(load_shared(scratch + 4 * warp));
    if (warp < own_warp) sum.before += of_warp;
    sum.all += of_warp;
  }
  return sum;
}

// Runs `use(slot, first entry of the block)` for all slots, 256 at a time; every thread takes part in each call, with
// slot -1 where there is none.
template <class Use>
NSA_DEVICE void each_list(
    const ListParams& p, int group, int slots_end, std::uint32_t scratch, const Use& use) {
  const int* lengths = p.count(group, p.strips);
  int before = 0;
  for (int first = 0; first < slots_end; first += kListThreads) {
    const int slot = first + thread_index();
    const BlockSum sum = sum_before(slot < slots_end ? lengths[slot] : 0, scratch);
    use(slot < slots_end ? slot : -1, before + sum.before);
    before += sum.all;
  }
}

NSA_DEVICE void fill_strip(const ListParams& p, int group, int strip, std::uint32_t shared) {
  const Common& c = p.common;
  const int from = strip * p.strip;
  const int to = smaller(from + p.strip, c.tokens);
  const SlotWindow window = slot_window(c, from, to);
  const std::uint32_t next = shared + 4 * (kListThreads / 32);
  const int* before = p.count(group, strip);
  each_list(p, group, window.end, shared, [&](int slot, int first) {
    if (slot >= window.begin) {
      store_shared(next + 4 * (slot - window.begin),
                   static_cast<std::uint32_t>(first + before[slot]));
    }
  });
  // Slots by all threads; places by one warp, query after query: the picks of a query are different blocks, so that no two
  // lanes meet.
  const std::uint32_t slots = next + 4 * p.window;
  std::int32_t* entries = p.group_entries(group);
  const int n = c.geometry.n_sel;
  const int lane = lane_index();
  const int own_warp = warp_index();
  const int first_sequence = c.sequences.find(from, [&](int b) { return c.sequences.begin(b); });
  for (int first = from; first < to; first += kFillQueries) {
    block_sync();
    for (int i = thread_index(); i < kFillQueries * n; i += kListThreads) {
      const int token = first + i / n;
      int slot = -1;
      if (token < to) {
        slot = listed_slot(p, strip_query(p, group, token, first_sequence), i % n, window.begin);
      }
      store_shared(slots + 4 * i, static_cast<std::uint32_t>(slot));
    }
    block_sync();
    if (own_warp > 0) continue;
    for (int i = 0; i < kFillQueries; ++i) {
      const int slot = lane < n ? static_cast<int>(load_shared(slots + 4 * (i * n + lane))) : -1;
      if (slot >= 0) {
        const std::uint32_t place = load_shared(next + 4 * slot);
        store_shared(next + 4 * slot, place + 1);
        entries[place] = (first + i) * n + lane;
      }
      warp_sync();
    }
  }
}

// How the entries of a slot that lie in a range become items of one size.
struct SlotItems {
  int from;  // first entry, within the block's list
  int length;
  int size;
  int count;
};
NSA_DEVICE SlotItems slot_items(const ListParams& p, int group, int range, int slot) {
  if (slot < 0) return {0, 0, 0, 0};
  const int from = p.count(group, range * p.range_strips)[slot];
  const int to = p.count(group, smaller((range + 1) * p.range_strips, p.strips))[slot];
  const int length = to - from;
  const int count = larger(1, p.by_item.quotient(length + p.item_entries - 1));
  const int size = (length + count - 1) / count;
  return {from, length, size, length > 0 ? count : 0};
}

// Items of a slot in earlier ranges of the same chunk.
NSA_DEVICE int earlier_items(const ListParams& p, int group, int range, int slot) {
  int items = 0;
  for (int before = range - range % p.together; before < range; ++before) {
    items += slot_items(p, group, before, slot).count;
  }
  return items;
}

// The first items of all blocks, then the second ones, ..: those of one block run far apart and need not wait for each other.
// Of kItemBlocks thread blocks each makes every kItemBlocks-th turn.
NSA_DEVICE void make_items(
    const ListParams& p, int group, int range, int first_turn, std::uint32_t shared) {
  const Common& c = p.common;
  ListItem* items = p.items + (static_cast<std::int64_t>(range) * c.groups + group) * p.max_items;
  for (int turn = first_turn;; turn += kItemBlocks) {
    int earlier = 0;  // items of earlier turns
    int all = 0;
    for (int slot = thread_index(); slot < p.slots; slot += kListThreads) {
      const int count = slot_items(p, group, range, slot).count;
      earlier += smaller(count, turn);
      all += count;
    }
    earlier = sum_before(earlier, shared).all;
    all = sum_before(all, shared).all;
    if (thread_index() == 0 && turn == 0) {
      p.item_counts[static_cast<std::int64_t>(range) * c.groups + group] = all;
    }
    if (earlier == all) break;
    int made = earlier;
    each_list(p, group, p.slots, shared, [&](int slot, int first) {
      const SlotItems list = slot_items(p, group, range, slot);
      const bool has = turn < list.count;
      const BlockSum sum = sum_before(has ? 1 : 0, shared);
      if (has) {
        const int sequence =
            c.sequences.find(slot, [&](int b) { return block_slot(c.geometry, c.sequences, b); });
        const int block = slot - static_cast<int>(block_slot(c.geometry, c.sequences, sequence));
        const int at = turn * list.size;
        items[made + sum.before] = {sequence,
                                    block,
                                    first + list.from + at,
                                    smaller(list.length - at, list.size),
                                    slot,
                                    turn + earlier_items(p, group, range, slot)};
      }
      made += sum.all;
    });
  }
}

NSA_KERNEL(kListThreads, 1)
fill_lists(NSA_PARAMETER ListParams p) {
  NSA_SHARED(shared);
  if (block_x() < p.strips) {
    fill_strip(p, block_y(), block_x(), shared_address(shared));
  } else {
    const int index = block_x() - p.strips;
    make_items(p, block_y(), index / kItemBlocks, index % kItemBlocks, shared_address(shared));
  }
}

}  // namespace nsa::kernels
