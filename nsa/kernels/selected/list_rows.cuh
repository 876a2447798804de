// Rows (entry, head) of one item of an inverted list, and the keys of its block.
#pragma once

#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/common/matrix.h"
#include "nsa/kernels/selected/params.h"

namespace nsa::kernels {

inline constexpr int kMostItemEntries = 256;

struct ListRow {
  int query;          // within the sequence
  int token;          // query of all sequences
  std::int64_t part;  // of the row (PartBuffers)
  int head;
};

// The entries of the item in shared memory: token and part of head 0 of each, then, in units of 16 bytes, where head 0 of each
// query is in the sequence's rows of q. And what turns a row of the item into a query and a head.
inline constexpr int kEntryBytes = 12;
inline constexpr int kAtEntryOffsets = 8 * kMostItemEntries;

struct ListRows {
  std::uint32_t entries;  // shared
  int rows;               // of the item
  int sequence_begin;
  Divider heads;
  std::int64_t query_step;  // of q

  NSA_DEVICE ListRow at(int row) const {
    const int index = heads.quotient(row);
    const Pair entry = load_shared_pair(entries + 8 * index);
    const int token = static_cast<int>(float_to_bits(entry.x));
    const int head = row - index * heads.divisor;
    return {token - sequence_begin, token, std::int64_t{float_to_bits(entry.y)} + head, head};
  }
  // Of a query's head in rows that are as far apart as those of q.
  NSA_DEVICE std::uint64_t offset(int index, int head, std::uint32_t head_step) const {
    const std::uint32_t query = load_shared(entries + kAtEntryOffsets + 4 * index);
    return std::uint64_t{query + static_cast<std::uint32_t>(head) * head_step} * 16;
  }
};

NSA_DEVICE void load_entries(
    const SelectedParams& p, int group, const ListItem& item, std::uint32_t shared, int threads) {
  const std::int32_t* entries = p.group_entries(group) + item.from;
  const int sequence_begin = p.common.sequences.begin(item.sequence);
  const auto step = static_cast<std::uint32_t>(p.q.position / 16);
  for (int i = thread_index(); i < item.count; i += threads) {
    const int token = p.picks.quotient(entries[i]);
    store_shared(shared + 8 * i, static_cast<std::uint32_t>(token));
    const int pick = entries[i] - token * p.picks.divisor;
    store_shared(shared + 8 * i + 4,
                 static_cast<std::uint32_t>(p.parts.row(p.common, group, token, pick, 0)));
    store_shared(shared + kAtEntryOffsets + 4 * i,
                 static_cast<std::uint32_t>(token - sequence_begin) * step);
  }
}

template <class T, int kThreads>
NSA_DEVICE void copy_list_rows(
    std::uint32_t tile, const PairRows& from, const ListRows& list, int first, int chunks) {
  Share<T, kThreads> share;
  if constexpr (share.kRegular) {
    if (first + T::kRows <= list.rows && chunks == T::kChunks &&
        from.query_step == list.query_step) {
      share.move(0, thread_index());
      PairWalk entry(list.heads, first + share.row, share.kStep);
      const char* data = from.data + share.chunk * 16;
      const auto head_step = static_cast<std::uint32_t>(from.head_step / 16);
      NSA_UNROLL
      for (int i = 0; i < share.kTimes; ++i) {
        copy16(tile + share.place + i * share.kStep * T::kLineBytes,
               data + list.offset(entry.query, entry.head, head_step),
               true);
        entry.next();
      }
      return;
    }
  }
  NSA_UNROLL
  for (int i = 0; i < share.kTimes; ++i) {
    if (!share.move(i, thread_index())) break;
    const bool valid = first + share.row < list.rows && share.chunk < chunks;
    const ListRow r = list.at(valid ? first + share.row : 0);
    const char* source = valid ? from.of(r.query, r.head) + share.chunk * 16 : from.data;
    copy16(tile + share.place, source, valid);
  }
}

// The same rows of two tensors, each looked up once where their tiles and steps are alike and nothing is missing.
template <class A, class B, int kThreads>
NSA_DEVICE void copy_list_rows(std::uint32_t tile_a,
                               const PairRows& a,
                               int chunks_a,
                               std::uint32_t tile_b,
                               const PairRows& b,
                               int chunks_b,
                               const ListRows& list,
                               int first) {
  Share<A, kThreads> share;
  if constexpr (share.kRegular && A::kRows == B::kRows && A::kChunks == B::kChunks) {
    if (first + A::kRows <= list.rows && chunks_a == A::kChunks && chunks_b == A::kChunks &&
        a.steps_like(b) && a.query_step == list.query_step) {
      share.move(0, thread_index());
      PairWalk entry(list.heads, first + share.row, share.kStep);
      const char* data = a.data + share.chunk * 16;
      const auto head_step = static_cast<std::uint32_t>(a.head_step / 16);
      const std::int64_t to_b = b.data - a.data;
      NSA_UNROLL
      for (int i = 0; i < share.kTimes; ++i) {
        const std::uint32_t place = share.place + i * share.kStep * A::kLineBytes;
        const char* source = data + list.offset(entry.query, entry.head, head_step);
        copy16(tile_a + place, source, true);
        copy16(tile_b + place, source + to_b, true);
        entry.next();
      }
      return;
    }
  }
  copy_list_rows<A, kThreads>(tile_a, a, list, first, chunks_a);
  copy_list_rows<B, kThreads>(tile_b, b, list, first, chunks_b);
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

// The block's keys into shared memory, its values behind them.
template <class C>
NSA_DEVICE void load_block_keys(const SelectedParams& p,
                                const ListItem& item,
                                const BlockKeys& keys,
                                int group,
                                std::uint32_t shared) {
  const Common& c = p.common;
  const auto k_rows = key_rows(c, p.k, item.sequence, group, 1);
  const auto v_rows = key_rows(c, p.v, item.sequence, group, 1);
  copy_rows<typename C::TileK, C::kThreads>(
      shared, k_rows, keys.first, keys.end, c.k_chunks, thread_index());
  copy_rows<typename C::TileV, C::kThreads>(
      shared + C::kAtV, v_rows, keys.first, keys.end, c.v_chunks, thread_index());
}

}  // namespace nsa::kernels
