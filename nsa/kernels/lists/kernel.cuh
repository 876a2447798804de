// Kernels of lists/params.h.
#pragma once

#include "nsa/kernels/lists/picks.cuh"
#include "nsa/kernels/lists/sums_before.cuh"

namespace nsa::kernels {

inline constexpr int kItemBlocks = 8;   // that make the items of one range and group
inline constexpr int kPicksAtOnce = 4;  // of a thread: their loads are under way together

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
  const int picks_of_strip = (to - from) * c.geometry.n_sel;
  StripWalk walk(p, block_y(), from);
  for (int first = thread_index(); first < picks_of_strip; first += kPicksAtOnce * kListThreads) {
    Pick picks[kPicksAtOnce];
    int slots[kPicksAtOnce];
    NSA_UNROLL
    for (int k = 0; k < kPicksAtOnce; ++k) {
      const int i = first + k * kListThreads;
      const int query = p.by_picks.quotient(i);
      picks[k] = walk.pick(from + query, i - query * p.by_picks.divisor, i < picks_of_strip);
    }
    find_slots(p, picks, slots);
    NSA_UNROLL
    for (int k = 0; k < kPicksAtOnce; ++k) {
      if (slots[k] >= 0) count_one(counters + 4 * (slots[k] - window.begin));
    }
  }
  block_sync();
  int* out = p.count(block_y(), block_x());
  for (int i = thread_index(); i < p.slots; i += kListThreads) {
    const bool inside = i >= window.begin && i < window.end;
    out[i] = inside ? static_cast<int>(load_shared(counters + 4 * (i - window.begin))) : 0;
  }
}

// Counts of a block become the entries before each strip. A thread block takes 32 slots, each warp of it some of the strips.
NSA_KERNEL(kListThreads, 1)
sum_strips(NSA_PARAMETER ListParams p) {
  NSA_SHARED(shared);
  constexpr int kWarps = kListThreads / 32;
  constexpr int kBatch = 16;  // loads under way
  const std::uint32_t sums = shared_address(shared) + 4 * lane_index();
  const int own_warp = warp_index();
  const int slot = smaller(block_x() * 32 + lane_index(), p.slots - 1);
  const bool is_slot = block_x() * 32 + lane_index() < p.slots;
  int* at = p.count(block_y(), 0) + slot;
  const int share = static_cast<int>(ceil_div(p.strips, kWarps));
  const int from = smaller(p.strips, own_warp * share);
  const int to = smaller(p.strips, from + share);
  // Runs `use(strip, count)` for the warp's strips.
  const auto each = [&](const auto& use) {
    for (int strip = from; strip < to; strip += kBatch) {
      int counted[kBatch];
      NSA_UNROLL
      for (int i = 0; i < kBatch; ++i) {
        counted[i] = strip + i < to ? at[static_cast<std::int64_t>(strip + i) * p.slots] : 0;
      }
      NSA_UNROLL
      for (int i = 0; i < kBatch; ++i) {
        if (strip + i < to) use(strip + i, counted[i]);
      }
    }
  };
  int sum = 0;
  each([&](int, int count) { sum += count; });
  store_shared(sums + 128 * own_warp, static_cast<std::uint32_t>(sum));
  block_sync();
  int before = 0;
  NSA_UNROLL
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp < own_warp) before += static_cast<int>(load_shared(sums + 128 * warp));
  }
  if (!is_slot) return;
  each([&](int strip, int count) {
    at[static_cast<std::int64_t>(strip) * p.slots] = before;
    before += count;
  });
  if (own_warp == kWarps - 1) at[static_cast<std::int64_t>(p.strips) * p.slots] = before;
}

// Puts the picks of a strip where they belong. Some warps take some of the queries each: they count their picks of each block, the
// counts become places, and each warp fills its own.
struct StripFiller {
  const ListParams& p;
  int group;
  int strip;
  int from;  // queries
  int to;
  SlotWindow window;
  std::uint32_t shared;

  // A counter of a warp that places.
  [[nodiscard]] NSA_DEVICE std::uint32_t counter(int placer, int slot) const {
    return shared + 4 * (kScratchWords + placer * p.window + slot - window.begin);
  }

  // Runs `use(query, pick, counter's address)` for each pick of the warp's queries, one query after the other: its picks are
  // different blocks, so that no two lanes meet. Several queries are looked up together where a warp has lanes for their picks.
  template <class Use>
  NSA_DEVICE void each_pick(const Use& use) const {
    const int placer = warp_index();
    const int share = (p.strip + p.placers - 1) / p.placers;
    const int first = smaller(to, from + placer * share);
    const int end = smaller(to, first + share);
    if (placer >= p.placers || first >= end) return;
    const int n = p.by_picks.divisor;
    const int together = 32 / n;
    const int own = p.by_picks.quotient(lane_index());  // of the queries looked up together
    const int number = lane_index() - own * n;
    StripWalk walk(p, group, first);
    for (int batch = first; batch < end; batch += kPicksAtOnce * together) {
      Pick picks[kPicksAtOnce];
      int slots[kPicksAtOnce];
      NSA_UNROLL
      for (int k = 0; k < kPicksAtOnce; ++k) {
        const int query = batch + k * together + own;
        picks[k] = walk.pick(smaller(query, end - 1), number, query < end && own < together);
      }
      find_slots(p, picks, slots);
      NSA_UNROLL
      for (int k = 0; k < kPicksAtOnce; ++k) {
        for (int turn = 0; turn < together; ++turn) {
          if (turn == own && slots[k] >= 0) {
            use(batch + k * together + own, number, counter(placer, slots[k]));
          }
          warp_sync();
        }
      }
    }
  }

  NSA_DEVICE void count() const {
    for (int placer = 0; placer < p.placers; ++placer) {
      for (int slot = window.begin + thread_index(); slot < window.end; slot += kListThreads) {
        store_shared(counter(placer, slot), 0);
      }
    }
    block_sync();
    if (p.placers > 1) {
      each_pick([&](int, int, std::uint32_t at) { store_shared(at, load_shared(at) + 1); });
    }
  }

  // Counts become the places of the first picks.
  NSA_DEVICE void find_places() const {
    const int* lengths = p.count(group, p.strips);
    const int* before = p.count(group, strip);
    const SlotShare share = slot_share(window.end);
    int own = 0;
    each_slot(share, lengths, before, [&](int, int length, int) { own += length; });
    int first_entry = sum_before<1>({own}, shared).before[0];
    each_slot(share, lengths, before, [&](int slot, int length, int earlier) {
      if (slot >= window.begin) {
        auto place = static_cast<std::uint32_t>(first_entry + earlier);
        for (int placer = 0; placer < p.placers; ++placer) {
          const std::uint32_t counted = load_shared(counter(placer, slot));
          store_shared(counter(placer, slot), place);
          place += counted;
        }
      }
      first_entry += length;
    });
  }

  NSA_DEVICE void run() const {
    count();
    block_sync();
    find_places();
    block_sync();
    std::int32_t* entries = p.group_entries(group);
    const int n = p.by_picks.divisor;
    each_pick([&](int query, int pick, std::uint32_t at) {
      const std::uint32_t place = load_shared(at);
      store_shared(at, place + 1);
      entries[place] = query * n + pick;
    });
  }
};

NSA_DEVICE void fill_strip(const ListParams& p, int group, int strip, std::uint32_t shared) {
  const int from = strip * p.strip;
  const int to = smaller(from + p.strip, p.common.tokens);
  StripFiller{p, group, strip, from, to, slot_window(p.common, from, to), shared}.run();
}

// How the entries of a slot that lie in a range become items of one size.
struct SlotItems {
  int from;  // first entry, within the block's list
  int length;
  int size;
  int count;
};
NSA_DEVICE SlotItems items_between(const ListParams& p, int from, int to) {
  const int length = to - from;
  const int count = larger(1, p.by_item.quotient(length + p.item_entries - 1));
  const int size = (length + count - 1) / count;
  return {from, length, size, length > 0 ? count : 0};
}

// Counts of all slots at the begin of a range, the last one's end included.
NSA_DEVICE const int* range_counts(const ListParams& p, int group, int range) {
  return p.count(group, smaller(range * p.range_strips, p.strips));
}

// Items of a slot in earlier ranges of the same chunk.
NSA_DEVICE int earlier_items(const ListParams& p, int group, int range, int slot) {
  constexpr int kRanges = 4;  // whose loads are under way together
  int items = 0;
  for (int first = range - range % p.together; first < range; first += kRanges) {
    int at[kRanges + 1];
    NSA_UNROLL
    for (int i = 0; i <= kRanges; ++i) {
      at[i] = range_counts(p, group, smaller(first + i, range))[slot];
    }
    NSA_UNROLL
    for (int i = 0; i < kRanges; ++i) items += items_between(p, at[i], at[i + 1]).count;
  }
  return items;
}

NSA_DEVICE void write_item(const ListParams& p,
                           int group,
                           int range,
                           int slot,
                           int turn,
                           int first_entry,
                           const SlotItems& list,
                           ListItem& to) {
  const Common& c = p.common;
  const int sequence =
      c.sequences.find(slot, [&](int b) { return block_slot(c.geometry, c.sequences, b); });
  const int block = slot - static_cast<int>(block_slot(c.geometry, c.sequences, sequence));
  const int at = turn * list.size;
  to = {sequence,
        block,
        first_entry + list.from + at,
        smaller(list.length - at, list.size),
        slot,
        turn + earlier_items(p, group, range, slot)};
}

// The first items of all blocks, then the second ones, ..: those of one block run far apart and need not wait for each other.
// Of kItemBlocks thread blocks each makes every kItemBlocks-th turn.
NSA_DEVICE void make_items(
    const ListParams& p, int group, int range, int first_turn, std::uint32_t shared) {
  ListItem* items =
      p.items + (static_cast<std::int64_t>(range) * p.common.groups + group) * p.max_items;
  const int* lengths = p.count(group, p.strips);
  const int* begins = range_counts(p, group, range);
  const int* ends = range_counts(p, group, range + 1);
  const SlotShare share = slot_share(p.slots);
  int own = 0;
  for (int slot = share.from; slot < share.to; ++slot) own += lengths[slot];
  const int first_entry = sum_before<1>({own}, shared).before[0];
  for (int turn = first_turn;; turn += kItemBlocks) {
    int earlier = 0;  // items of earlier turns
    int all = 0;
    int has = 0;  // slots with an item of this turn
    each_slot(share, begins, ends, [&](int, int begin, int end) {
      const int count = items_between(p, begin, end).count;
      earlier += smaller(count, turn);
      all += count;
      has += turn < count ? 1 : 0;
    });
    const auto sums = sum_before<3>({earlier, all, has}, shared);
    if (thread_index() == 0 && turn == 0) {
      p.item_counts[static_cast<std::int64_t>(range) * p.common.groups + group] = sums.all[1];
    }
    if (sums.all[0] == sums.all[1]) break;
    int made = sums.all[0] + sums.before[2];
    int entry = first_entry;
    for (int slot = share.from; slot < share.to; ++slot) {
      const SlotItems list = items_between(p, begins[slot], ends[slot]);
      if (turn < list.count) {
        write_item(p, group, range, slot, turn, entry, list, items[made++]);
      }
      entry += lengths[slot];
    }
  }
}

NSA_KERNEL(kListThreads, 5)
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
