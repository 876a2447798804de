// Sums that the key-gradient kernels leave in memory: where they are and how many segments a key has.
#pragma once

#include "nsa/kernels/common/params.h"

namespace nsa::kernels {

struct SumRef {
  const float* data = nullptr;  // null: there are none
  KeyTiles tiles;               // of the kernel that wrote them; range none: one segment, all keys
  int key_rows = 0;
  int segment = 0;  // rows of one

  NSA_BOTH bool has(int key) const {
    if (data == nullptr) return false;
    if (tiles.range.kind == RangeKind::initial) return key < tiles.range.initial_end();
    return key >= tiles.range.keys_begin();
  }
  NSA_BOTH std::int64_t row(const Common& c, int group, int b, int key) const {
    const Sequences& all = c.sequences;
    std::int64_t first = key_rows / all.count * static_cast<std::int64_t>(b);
    if (tiles.range.kind == RangeKind::initial) {
      first = static_cast<std::int64_t>(b) * tiles.range.initial_end();
    } else if (all.starts != nullptr) {
      first = all.starts[b] / tiles.stride();
    }
    return static_cast<std::int64_t>(group) * key_rows + first + key;
  }
  // Segments that were written for a key.
  NSA_BOTH int segments(const Common& c, int b, int key) const {
    if (tiles.range.kind == RangeKind::none) return 1;
    const int begin = tiles.range.keys_begin();
    const int tile = begin + (key - begin) / tiles.keys * tiles.keys;
    const int end = smaller(tile + tiles.keys, tiles.range.keys_end(c.sequences.keys(b)));
    const RowSegments rows =
        seeing_rows(tiles.range, tile, end, c.sequences.queries(b), c.heads.divisor, segment);
    return larger(1, rows.count());
  }
};

}  // namespace nsa::kernels
