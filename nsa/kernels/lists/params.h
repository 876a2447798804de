// Inverted lists: for each selection block the picks of it, ascending by query, so that a kernel can keep a block's keys and
// pass through the queries that chose it. Made by counting: picks are counted strip by strip of queries, counts are summed
// over strips, and each strip puts its picks where they belong. Integers only; the order does not depend on timing.
#pragma once

#include "nsa/kernels/common/params.h"

namespace nsa::kernels {

// Rows of one block that a thread block takes at a time, in list order.
struct ListItem {
  int sequence;
  int block;
  int from;   // first entry
  int count;  // entries
  int slot;   // of the block
  int turn;   // which item of the block this is, within the chunk
};

// Lists are cut into items at the same queries for all blocks, range after range, so that items which run together read the same
// queries. Several ranges are worked on together: a chunk.
struct ListParams {
  Common common;
  TensorRef blocks;  // int32 [B,G,S,n]
  bool forced_apart = false;
  int slots = 0;     // of blocks, over all sequences
  Divider by_picks;  // of a query
  Divider by_block;  // tokens of a block
  int strip = 0;     // queries of a strip
  int strips = 0;
  int range_strips = 0;  // strips of a range
  int ranges = 0;        // of all queries
  int together = 1;      // ranges of a chunk
  int item_entries = 0;  // most entries of an item
  Divider by_item;       // that
  int max_items = 0;     // of a range and group
  int window = 0;        // most slots that the queries of a strip reach over
  // Warps that put a strip's picks in their places, each those of some of its queries.
  int placers = 1;
  int* counts =
      nullptr;  // [G, strips + 1, slots]; in the end entries of a block before a strip, the last its length
  std::int32_t* entries = nullptr;  // [G, T*n]: T*n + pick
  ListItem* items = nullptr;        // [ranges, G, max_items]
  int* item_counts = nullptr;       // [ranges, G]

  NSA_BOTH int* count(int group, int strip_index) const {
    return counts + (static_cast<std::int64_t>(group) * (strips + 1) + strip_index) * slots;
  }
  NSA_BOTH std::int32_t* group_entries(int group) const {
    return entries + static_cast<std::int64_t>(group) * common.tokens * common.geometry.n_sel;
  }
};

// Slots that the queries [from, to) of all sequences can reach: [begin, end).
struct SlotWindow {
  int begin = 0;
  int end = 0;
};

NSA_BOTH SlotWindow slot_window(const Common& c, int from, int to) {
  const auto sequence_of = [&](int token) {
    return c.sequences.find(token, [&](int b) { return c.sequences.begin(b); });
  };
  const int first = sequence_of(from);
  const int last = sequence_of(to - 1);
  return {static_cast<int>(block_slot(c.geometry, c.sequences, first)),
          static_cast<int>(block_slot(c.geometry, c.sequences, last)) +
              c.geometry.blocks(c.sequences.keys(last))};
}

}  // namespace nsa::kernels
