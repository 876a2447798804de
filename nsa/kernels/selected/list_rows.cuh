// Rows (entry, head) of one item of an inverted list.
#pragma once

#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/common/matrix.h"
#include "nsa/kernels/selected/params.h"

namespace nsa::kernels {

inline constexpr int kMostItemEntries = 256;

struct ListRow {
  int query;  // within the sequence
  int token;  // query of all sequences
  int pick;
  int head;
};

// The entries of the item in shared memory, and what turns a row of the item into a query and a head.
struct ListRows {
  std::uint32_t entries;  // shared
  int rows;               // of the item
  int sequence_begin;
  Divider heads;
  Divider picks;

  NSA_DEVICE ListRow at(int row) const {
    const int index = heads.quotient(row);
    const int entry = static_cast<int>(load_shared(entries + 4 * index));
    const int token = picks.quotient(entry);
    return {
        token - sequence_begin, token, entry - token * picks.divisor, row - index * heads.divisor};
  }
};

NSA_DEVICE void load_entries(
    const SelectedParams& p, int group, const ListItem& item, std::uint32_t shared, int threads) {
  const std::int32_t* entries = p.group_entries(group) + item.from;
  for (int i = thread_index(); i < item.count; i += threads) {
    store_shared(shared + 4 * i, static_cast<std::uint32_t>(entries[i]));
  }
}

template <class T, int kThreads>
NSA_DEVICE void copy_list_rows(
    std::uint32_t tile, const PairRows& from, const ListRows& list, int first, int chunks) {
  Share<T, kThreads> share;
  NSA_UNROLL
  for (int i = 0; i < share.kTimes; ++i) {
    if (!share.move(i, thread_index())) break;
    const bool valid = first + share.row < list.rows && share.chunk < chunks;
    const ListRow r = list.at(valid ? first + share.row : 0);
    const char* source =
        valid ? from.data + r.query * from.query_step + r.head * from.head_step + share.chunk * 16
              : from.data;
    copy16(tile + share.place, source, valid);
  }
}

// Keys of the block that exist: [first, end) of the sequence.
struct BlockKeys {
  int first;
  int end;
};
NSA_DEVICE BlockKeys block_keys(const Common& c, const ListItem& item) {
  const int first = item.block * c.geometry.l_sel;
  return {first, smaller(first + c.geometry.l_sel, c.sequences.keys(item.sequence))};
}

}  // namespace nsa::kernels
