// Which keys a query may see, which queries a key has, which blocks are forced: index laws as functions of numbers, the same
// code on the card and in tests on the host. Positions count from 0 within a sequence.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define NSA_BOTH __host__ __device__ __forceinline__
#else
#define NSA_BOTH inline
#endif

namespace nsa::kernels {

NSA_BOTH constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}
NSA_BOTH constexpr int larger(int a, int b) {
  return a > b ? a : b;
}
NSA_BOTH constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Geometry {
  int l = 0;
  int d = 0;
  int l_sel = 0;
  int n_sel = 0;
  int w = 0;
  int init_blocks = 0;
  int local_blocks = 0;

  // Compressed tokens that a query at t may see; of a sequence of `keys` tokens there are compressed(keys - 1).
  NSA_BOTH int compressed(int t) const { return t + 1 < l ? 0 : (t + 1 - l) / d + 1; }
  NSA_BOTH int blocks(int keys) const { return (keys + l_sel - 1) / l_sel; }
  NSA_BOTH bool is_forced(int t, int block) const { return is_forced_at(t / l_sel, block); }
  // Of a query in block `current`.
  NSA_BOTH bool is_forced_at(int current, int block) const {
    return block <= current && (block < init_blocks || block > current - local_blocks);
  }
  // Blocks that scores may choose are [init_blocks, end): complete, past and not forced.
  NSA_BOTH int candidates_end(int t) const {
    return smaller((t + 1) / l_sel, t / l_sel - local_blocks + 1);
  }
  NSA_BOTH int forced_count(int t) const {
    const int current = t / l_sel;
    const int locals_begin = larger(0, current - local_blocks + 1);
    const int initial = smaller(init_blocks, current + 1);
    return current + 1 - locals_begin + smaller(initial, locals_begin);
  }
  NSA_BOTH int candidate_count(int t) const { return larger(0, candidates_end(t) - init_blocks); }
  // False: all candidates are taken, whatever their scores.
  NSA_BOTH bool scores_decide(int t) const { return candidate_count(t) > n_sel - forced_count(t); }
  // Compressed tokens [first_touching(j), first_touching(j) + touching()) overlap block j; the first may be negative.
  NSA_BOTH int touching() const { return l_sel / d + l / d - 1; }
  NSA_BOTH int first_touching(int block) const { return block * (l_sel / d) - (l / d - 1); }
  // Tokens that the r-th touching compressed token shares with its block.
  NSA_BOTH int shared_tokens(int r) const {
    const int begin = (r - (l / d - 1)) * d;
    return smaller(begin + l, l_sel) - larger(begin, 0);
  }
};

// Is this entry attended to, of the list of blocks of a query in block `current`? Not what is unused, repeated or after the query.
NSA_BOTH bool is_attended(int current, int block, int previous) {
  return block > previous && block >= 0 && block <= current;
}

enum class RangeKind : int { window, compressed, initial, local, none };

// One range of consecutive keys for each query: [low(t), high(t)), both not falling in t; and the other way round the
// queries [first_query(k), end_query(k)) of a key, both not falling in k.
// `initial` are the forced blocks at the start, `local` those that end with the query's own and are not initial.
struct KeyRange {
  RangeKind kind = RangeKind::none;
  Geometry geometry;

  NSA_BOTH int initial_end() const { return geometry.init_blocks * geometry.l_sel; }
  NSA_BOTH int low(int t) const {
    switch (kind) {
      case RangeKind::window: return larger(0, t - geometry.w + 1);
      case RangeKind::local: {
        const int begin = (t / geometry.l_sel - geometry.local_blocks + 1) * geometry.l_sel;
        return larger(initial_end(), begin);
      }
      default: return 0;
    }
  }
  NSA_BOTH int high(int t) const {
    switch (kind) {
      case RangeKind::compressed: return geometry.compressed(t);
      case RangeKind::initial: return smaller(initial_end(), t + 1);
      case RangeKind::none: return 0;
      default: return t + 1;
    }
  }
  NSA_BOTH int first_query(int key) const {
    if (kind == RangeKind::compressed) return key * geometry.d + geometry.l - 1;
    return key;
  }
  // At most `queries_end`. For keys that the range has at all.
  NSA_BOTH int end_query(int key, int queries_end) const {
    switch (kind) {
      case RangeKind::window:
        return key >= queries_end - geometry.w ? queries_end : key + geometry.w;
      case RangeKind::local: {
        const std::int64_t end =
            (static_cast<std::int64_t>(key / geometry.l_sel) + geometry.local_blocks) *
            geometry.l_sel;
        return end < queries_end ? static_cast<int>(end) : queries_end;
      }
      default: return queries_end;
    }
  }
  // Keys [keys_begin, keys_end) are in some query's range where the sequence has `keys` tokens.
  NSA_BOTH int keys_begin() const { return kind == RangeKind::local ? initial_end() : 0; }
  NSA_BOTH int keys_end(int keys) const {
    switch (kind) {
      case RangeKind::compressed: return geometry.compressed(keys - 1);
      case RangeKind::initial: return smaller(initial_end(), keys);
      case RangeKind::none: return 0;
      default: return keys;
    }
  }
};

// Sequences of one length, or packed ones between starts[b] and starts[b + 1]. Queries of all sequences are numbered
// through: token T of sequence b at `begin(b) + t`.
struct Sequences {
  const std::int32_t* starts = nullptr;
  int count = 0;
  int length = 0;
  int first = 0;  // position of the first query

  NSA_BOTH int begin(int b) const { return starts != nullptr ? starts[b] : b * length; }
  NSA_BOTH int queries(int b) const {
    return starts != nullptr ? starts[b + 1] - starts[b] : length;
  }
  NSA_BOTH int keys(int b) const { return first + queries(b); }
  // Largest b with slot(b) <= index, where slot does not fall and slot(0) <= index.
  template <class Slot>
  NSA_BOTH int find(std::int64_t index, const Slot& slot) const {
    int low = 0;
    int high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (slot(middle) <= index) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// A chunk of tokens, cut into tiles of `rows` (query, head) pairs of one sequence and group: row r of a sequence is head
// r % heads of query r / heads. Slots of tiles need no table: some at a sequence's end are empty.
struct RowTiles {
  int from = 0;  // tokens [from, to)
  int to = 0;
  int heads = 1;
  int rows = 64;

  NSA_BOTH int clipped(int token) const { return larger(from, smaller(token, to)); }
  NSA_BOTH std::int64_t slot(const Sequences& all, int b) const {
    return static_cast<std::int64_t>(clipped(all.begin(b)) - from) * heads / rows + b;
  }
  NSA_BOTH std::int64_t slots(int sequences) const {
    return static_cast<std::int64_t>(to - from) * heads / rows + sequences;
  }
};

struct RowTile {
  int sequence = 0;
  int row = 0;  // first row, within the sequence
  int end = 0;  // not after row where the slot is empty
};

NSA_BOTH RowTile find_tile(const RowTiles& tiles, const Sequences& all, std::int64_t index) {
  const int b = all.find(index, [&](int i) { return tiles.slot(all, i); });
  const int begin = all.begin(b);
  const int from = tiles.clipped(begin) - begin;
  const int to = tiles.clipped(begin + all.queries(b)) - begin;
  const std::int64_t row =
      static_cast<std::int64_t>(from) * tiles.heads + (index - tiles.slot(all, b)) * tiles.rows;
  const std::int64_t end = static_cast<std::int64_t>(to) * tiles.heads;
  if (to <= from || row >= end) return {b, 0, 0};
  return {
      b, static_cast<int>(row), static_cast<int>(row + tiles.rows < end ? row + tiles.rows : end)};
}

// Tiles of `keys` consecutive keys of a range, over all sequences; slots as in RowTiles.
struct KeyTiles {
  KeyRange range;
  int keys = 64;

  NSA_BOTH int stride() const { return range.kind == RangeKind::compressed ? range.geometry.d : 1; }
  NSA_BOTH std::int64_t slot(const Sequences& all, int b) const {
    if (range.kind == RangeKind::initial) return b * ceil_div(range.initial_end(), keys);
    return all.begin(b) / stride() / keys + b;
  }
  // `tokens` of all sequences.
  NSA_BOTH std::int64_t slots(std::int64_t sequences, std::int64_t tokens) const {
    if (range.kind == RangeKind::initial) return sequences * ceil_div(range.initial_end(), keys);
    return tokens / stride() / keys + sequences;
  }
};

struct KeyTile {
  int sequence = 0;
  int key = 0;
  int end =
      0;  // keys of the range from here on do not exist; not after key where the slot is empty
};

NSA_BOTH KeyTile find_keys(const KeyTiles& tiles, const Sequences& all, std::int64_t index) {
  const int b = all.find(index, [&](int i) { return tiles.slot(all, i); });
  const std::int64_t key = tiles.range.keys_begin() + (index - tiles.slot(all, b)) * tiles.keys;
  const int end = tiles.range.keys_end(all.keys(b));
  if (key >= end) return {b, 0, 0};
  return {b, static_cast<int>(key), end};
}

// Rows (query, head) that see a key of a tile, cut into segments: at multiples of `segment` from `origin` on.
struct RowSegments {
  int from = 0;
  int to = 0;
  int segment = 1;
  int origin = 0;

  // Segments that end before the first row.
  NSA_BOTH int skipped() const { return (from - origin) / segment; }
  NSA_BOTH int count() const {
    return to <= from ? 0 : (to - origin + segment - 1) / segment - skipped();
  }
  NSA_BOTH int begin(int i) const { return larger(from, origin + (skipped() + i) * segment); }
  NSA_BOTH int end(int i) const { return smaller(to, origin + (skipped() + i + 1) * segment); }
};

// Segments of compressed tokens begin at the same rows for all keys, so that blocks which run together read the same rows.
NSA_BOTH RowSegments
seeing_rows(const KeyRange& range, int key, int key_end, int queries, int heads, int segment) {
  const int from = range.first_query(key);
  const int to = range.end_query(key_end - 1, queries);
  const int first = smaller(from, to) * heads;
  return {first, to * heads, segment, range.kind == RangeKind::compressed ? 0 : first};
}

// Blocks of all sequences, numbered through with gaps: block j of sequence b is slot block_slot(b) + j.
NSA_BOTH std::int64_t block_slot(const Geometry& g, const Sequences& all, int b) {
  const std::int64_t first_blocks = g.blocks(all.first);
  if (all.starts == nullptr) return static_cast<std::int64_t>(b) * g.blocks(all.keys(b));
  return all.begin(b) / g.l_sel + b + first_blocks * b;
}

// Row r / heads without a division: multiplication with a reciprocal that is rounded up, exact for 0 <= r < 2^31 because the
// error of the factor, below the divisor, is below 2^shift / 2^31.
struct Divider {
  std::uint32_t factor = 0;
  int shift = 0;
  int divisor = 1;

  static Divider of(int divisor) {
    int bits = 0;
    while ((1 << bits) < divisor) ++bits;
    const std::uint64_t whole = std::uint64_t{1} << (31 + bits);
    return {static_cast<std::uint32_t>((whole + divisor - 1) / divisor), 31 + bits, divisor};
  }
  NSA_BOTH int quotient(int r) const {
    const std::uint64_t product =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(r)) * factor;
    return static_cast<int>(product >> shift);
  }
};

}  // namespace nsa::kernels
