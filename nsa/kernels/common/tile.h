// Tiles of 16-bit elements in shared memory. Columns lie in panels of 64 (or 32) elements; within a panel each row is one
// line of 128 (or 64) bytes whose 16-byte chunks are permuted by the row, so that eight rows of one chunk column meet no bank
// twice. It is also the layout that sm_90's matrix instructions call 128-byte swizzle, K-major and MN-major alike.
#pragma once

#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

template <int kRows_, int kColumns_>
struct Tile {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kChunks = kColumns / 8;  // 16-byte chunks of a row
  static constexpr int kPanel = kColumns % 64 == 0 ? 64 : 32;
  static constexpr int kLineBytes = kPanel * 2;
  static constexpr int kPanelBytes = kRows * kLineBytes;
  static constexpr int kBytes = kRows * kColumns * 2;

  // Byte offset of a chunk.
  NSA_DEVICE static std::uint32_t at(int row, int chunk) {
    constexpr int kPanelChunks = kPanel / 8;
    const int panel = chunk / kPanelChunks;
    const int permuted = (chunk % kPanelChunks) ^ (kPanel == 64 ? row & 7 : (row >> 1) & 3);
    return static_cast<std::uint32_t>(panel * kPanelBytes + row * kLineBytes + permuted * 16);
  }
};

// A view of the rows of one sequence and head, addressed in bytes.
struct ByteRows {
  const char* data;
  std::int64_t step;  // from one position to the next
};

// How kThreads threads share the 16-byte chunks of a tile: each has one chunk of every kStep-th row. The permutation of a row
// repeats after eight, so that a thread's places are a constant apart.
template <class T, int kThreads>
struct Share {
  static constexpr int kStep = kThreads / T::kChunks;
  static constexpr bool kEven = kThreads % T::kChunks == 0 && kStep % 8 == 0;
  static constexpr int kAll = T::kRows * T::kChunks;
  static constexpr int kTimes = (kAll + kThreads - 1) / kThreads;
  // A thread's places are a constant apart, and it has as many as every other one.
  static constexpr bool kRegular = kEven && T::kRows % (kEven ? kStep : 1) == 0;
  int row;
  int chunk;
  std::uint32_t place;  // in the tile

  // The i-th of the thread; false where there is none.
  NSA_DEVICE bool move(int i, int thread) {
    if constexpr (kEven) {
      if (i > 0) {
        row += kStep;
        place += kStep * T::kLineBytes;
        return T::kRows % kStep == 0 || row < T::kRows;
      }
    }
    const int index = thread + i * kThreads;
    row = index / T::kChunks;
    chunk = index % T::kChunks;
    place = T::at(row, chunk);
    return kAll % kThreads == 0 || index < kAll;
  }
};

// index * step, both not negative: fewer instructions than with signs.
NSA_DEVICE std::int64_t offset_of(int index, std::int64_t step) {
  return static_cast<std::int64_t>(std::uint64_t{static_cast<std::uint32_t>(index)} *
                                   static_cast<std::uint64_t>(step));
}

// Rows first .. first + kRows - 1 into the tile; zeros before row 0, from row `end` on, and from chunk `chunks` on.
template <class T, int kThreads>
NSA_DEVICE void copy_rows(
    std::uint32_t tile, const ByteRows& from, int first, int end, int chunks, int thread) {
  Share<T, kThreads> share;
  if constexpr (share.kEven) {
    // Nothing is missing: no row is asked whether it is there.
    if (first >= 0 && first + T::kRows <= end && chunks == T::kChunks) {
      share.move(0, thread);
      const char* source = from.data + offset_of(first + share.row, from.step) + share.chunk * 16;
      NSA_UNROLL
      for (int i = 0; i < share.kTimes; ++i) {
        // The last round of the threads may be too many for the tile.
        if (!share.kRegular && share.row + i * share.kStep >= T::kRows) break;
        copy16(tile + share.place + i * share.kStep * T::kLineBytes, source, true);
        source += share.kStep * from.step;
      }
      return;
    }
  }
  NSA_UNROLL
  for (int i = 0; i < share.kTimes; ++i) {
    if (!share.move(i, thread)) break;
    const int row = first + share.row;
    const bool valid = row >= 0 && row < end && share.chunk < chunks;
    const char* source = valid ? from.data + row * from.step + share.chunk * 16 : from.data;
    copy16(tile + share.place, source, valid);
  }
}

// copy_rows for rows that are copied again and again from places a constant apart: what a thread needs to know is found once.
template <class T, int kThreads>
class RowCopies {
 public:
  NSA_DEVICE RowCopies(const ByteRows& from, int first, int end, int chunks, int thread)
      : from_(from), first_(first), end_(end), chunks_(chunks), thread_(thread) {
    Share<T, kThreads> share;
    share.move(0, thread);
    place_ = share.place;
    full_ = share.kRegular && first >= 0 && first + T::kRows <= end && chunks == T::kChunks;
    source_ = from.data + (full_ ? offset_of(first + share.row, from.step) + share.chunk * 16 : 0);
  }
  NSA_DEVICE void copy(std::uint32_t tile) const {
    using S = Share<T, kThreads>;
    if constexpr (S::kRegular) {
      if (full_) {
        const char* source = source_;
        NSA_UNROLL
        for (int i = 0; i < S::kTimes; ++i) {
          copy16(tile + place_ + i * S::kStep * T::kLineBytes, source, true);
          source += S::kStep * from_.step;
        }
        return;
      }
    }
    copy_rows<T, kThreads>(tile, {source_, from_.step}, first_, end_, chunks_, thread_);
  }
  NSA_DEVICE void move(std::int64_t bytes) { source_ += bytes; }

 private:
  ByteRows from_;
  const char* source_;  // of the thread's first chunk; not full_: of row 0
  std::uint32_t place_;
  int first_;
  int end_;
  int chunks_;
  int thread_;
  bool full_;
};

// Rows of (query, head) pairs of one sequence and group.
struct PairRows {
  const char* data;  // of query 0, head 0 of the group
  std::int64_t query_step;
  std::int64_t head_step;
  Divider heads;

  NSA_DEVICE const char* at(const char* first, int query, int head) const {
    return first + offset_of(query, query_step) + offset_of(head, head_step);
  }
  NSA_DEVICE const char* of(int query, int head) const { return at(data, query, head); }
  // Rows are as far apart as the other one's.
  NSA_DEVICE bool steps_like(const PairRows& other) const {
    return query_step == other.query_step && head_step == other.head_step;
  }
  NSA_DEVICE const char* row(int r) const {
    const int query = heads.quotient(r);
    return of(query, r - query * heads.divisor);
  }
};

// A (query, head) pair, and the ones that come a number of rows later each, without divisions.
struct PairWalk {
  int query;
  int head;
  int queries;  // of a step
  int heads;
  int all_heads;

  NSA_DEVICE PairWalk(const Divider& of, int row, int step)
      : query(of.quotient(row)),
        head(row - query * of.divisor),
        queries(of.quotient(step)),
        heads(step - queries * of.divisor),
        all_heads(of.divisor) {}
  NSA_DEVICE void next() {
    query += queries;
    head += heads;
    if (head >= all_heads) {
      head -= all_heads;
      ++query;
    }
  }
};

template <class T, int kThreads>
NSA_DEVICE void copy_pairs(
    std::uint32_t tile, const PairRows& from, int first, int end, int chunks, int thread) {
  Share<T, kThreads> share;
  if constexpr (share.kRegular) {
    if (first + T::kRows <= end && chunks == T::kChunks) {
      share.move(0, thread);
      PairWalk pair(from.heads, first + share.row, share.kStep);
      const char* data = from.data + share.chunk * 16;
      NSA_UNROLL
      for (int i = 0; i < share.kTimes; ++i) {
        copy16(tile + share.place + i * share.kStep * T::kLineBytes,
               from.at(data, pair.query, pair.head),
               true);
        pair.next();
      }
      return;
    }
  }
  NSA_UNROLL
  for (int i = 0; i < share.kTimes; ++i) {
    if (!share.move(i, thread)) break;
    const int row = first + share.row;
    const bool valid = row < end && share.chunk < chunks;
    const char* source = valid ? from.row(row) + share.chunk * 16 : from.data;
    copy16(tile + share.place, source, valid);
  }
}

// The same rows of two tensors, each looked up once where their tiles and steps are alike and nothing is missing.
template <class A, class B, int kThreads>
NSA_DEVICE void copy_pairs(std::uint32_t tile_a,
                           const PairRows& a,
                           int chunks_a,
                           std::uint32_t tile_b,
                           const PairRows& b,
                           int chunks_b,
                           int first,
                           int end,
                           int thread) {
  Share<A, kThreads> share;
  if constexpr (share.kRegular && A::kRows == B::kRows && A::kChunks == B::kChunks) {
    if (first + A::kRows <= end && chunks_a == A::kChunks && chunks_b == A::kChunks &&
        a.steps_like(b)) {
      share.move(0, thread);
      PairWalk pair(a.heads, first + share.row, share.kStep);
      const char* data = a.data + share.chunk * 16;
      const std::int64_t to_b = b.data - a.data;
      NSA_UNROLL
      for (int i = 0; i < share.kTimes; ++i) {
        const std::uint32_t place = share.place + i * share.kStep * A::kLineBytes;
        const char* source = a.at(data, pair.query, pair.head);
        copy16(tile_a + place, source, true);
        copy16(tile_b + place, source + to_b, true);
        pair.next();
      }
      return;
    }
  }
  copy_pairs<A, kThreads>(tile_a, a, first, end, chunks_a, thread);
  copy_pairs<B, kThreads>(tile_b, b, first, end, chunks_b, thread);
}

}  // namespace nsa::kernels
