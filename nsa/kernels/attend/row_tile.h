// What kernels with rows (query, head) of one sequence and group in their tiles have in common.
#pragma once

#include "nsa/kernels/common/params.h"
#include "nsa/kernels/common/part.h"
#include "nsa/kernels/common/tile.h"

namespace nsa::kernels {

// Two rows of a lane: i / 4 and i / 4 + 8 of its warp's 16.
struct LaneRows {
  int row[2];    // within the sequence
  int query[2];  // their positions
  bool valid[2];
};

NSA_DEVICE LaneRows lane_rows(const Common& c, const RowTile& tile, int first) {
  LaneRows r;
  NSA_UNROLL
  for (int half = 0; half < 2; ++half) {
    r.row[half] = first + (lane_index() >> 2) + 8 * half;
    r.query[half] = c.sequences.first + c.heads.quotient(r.row[half]);
    r.valid[half] = r.row[half] < tile.end;
  }
  return r;
}

NSA_DEVICE PairRows pair_rows(const Common& c, const TensorRef& x, int b, int group) {
  return {
      at_sequence(x, c.sequences, b) + static_cast<std::int64_t>(group) * c.heads.divisor * x.head,
      x.position,
      x.head,
      c.heads};
}

NSA_DEVICE ByteRows key_rows(const Common& c, const TensorRef& x, int b, int group, int stride) {
  return {at_sequence(x, c.sequences, b, stride) + group * x.head, x.position};
}

// Keys [low, high) that each of 64 rows from `first` on sees.
struct KeysOfAll {
  int low;
  int high;

  NSA_DEVICE bool all_of(int key, int keys) const { return key >= low && key + keys <= high; }
};
NSA_DEVICE KeysOfAll
keys_of_all(const Common& c, const KeyRange& range, const RowTile& tile, int first, int key_end) {
  const int first_row = smaller(first, tile.end - 1);
  const int from = c.sequences.first + c.heads.quotient(first_row);
  const int last = c.sequences.first + c.heads.quotient(smaller(first_row + 64, tile.end) - 1);
  return {range.low(last), smaller(range.high(from), key_end)};
}

// Copies tiles of T::kRows keys of one source after the other, each where the one before it ended; what a thread needs to know is
// found once for a source.
template <class T, int kThreads>
class KeyCopies {
 public:
  NSA_DEVICE void copy(std::uint32_t tile,
                       const Common& c,
                       int from,
                       const TensorRef& x,
                       int b,
                       int group,
                       int stride,
                       int key,
                       int end,
                       int chunks) {
    Share<T, kThreads> share;
    share.move(0, thread_index());
    if (from != source_) {
      source_ = from;
      const ByteRows rows = key_rows(c, x, b, group, stride);
      step_ = rows.step;
      next_ = rows.data + offset_of(key + share.row, step_) + share.chunk * 16;
    }
    const char* source = next_;
    next_ += T::kRows * step_;
    if constexpr (share.kEven) {
      if (key + T::kRows <= end && chunks == T::kChunks) {
        NSA_UNROLL
        for (int i = 0; i < share.kTimes; ++i) {
          // The last round of the threads may be too many for the tile.
          if (!share.kRegular && share.row + i * share.kStep >= T::kRows) break;
          copy16(tile + share.place + i * share.kStep * T::kLineBytes, source, true);
          source += share.kStep * step_;
        }
        return;
      }
    }
    const char* first = source - offset_of(share.row, step_) - share.chunk * 16;
    copy_rows<T, kThreads>(tile, {first, step_}, 0, end - key, chunks, thread_index());
  }

 private:
  int source_ = -1;
  std::int64_t step_ = 0;
  const char* next_ = nullptr;  // the thread's first chunk of the next tile
};

// Of a lane's columns of one row: four chains in the place of one, because each instruction of a chain waits for the one before.
inline constexpr int kChains = 4;

template <int kColumns>
NSA_DEVICE float largest_of(const float (&x)[kColumns / 8][4], int half) {
  static_assert(kColumns / 8 >= kChains, "a chain has a beginning");
  float chain[kChains];
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    const float two = fmaxf(x[j][2 * half], x[j][2 * half + 1]);
    chain[j % kChains] = j < kChains ? two : fmaxf(chain[j % kChains], two);
  }
  return fmaxf(fmaxf(chain[0], chain[1]), fmaxf(chain[2], chain[3]));
}

// x becomes 2^(x scale - base). Gives the sum.
template <int kColumns>
NSA_DEVICE float raise(float (&x)[kColumns / 8][4], int half, float scale, float base) {
  float chain[kChains] = {};
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    NSA_UNROLL
    for (int e = 0; e < 2; ++e) {
      float& y = x[j][2 * half + e];
      y = exp2_fast(y * scale - base);
      chain[(2 * j + e) % kChains] += y;
    }
  }
  return (chain[0] + chain[1]) + (chain[2] + chain[3]);
}

// How two results become a word: rounded to the element type, or as steps (common/part.h).
template <class E>
struct Rounded {
  NSA_DEVICE static std::uint32_t packed(float low, float high) { return pack<E>(low, high); }
};
struct Steps {
  NSA_DEVICE static std::uint32_t packed(float low, float high) { return pack_steps(low, high); }
};

NSA_DEVICE float from_lane(float sent, int distance) {
  return shuffle_xor(sent, distance);
}
NSA_DEVICE std::uint32_t from_lane(std::uint32_t sent, int distance) {
  return float_to_bits(shuffle_xor(bits_to_float(sent), distance));
}

// Of four lanes each has word j of each of four pieces: then lane t has all words of piece t. A word is kCount / 4 values.
template <class T, int kCount>
NSA_DEVICE void exchange_words(T (&x)[kCount]) {
  constexpr int kWord = kCount / 4;
  const int t = lane_index() & 3;
  NSA_UNROLL
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = (t & distance) != 0;
    NSA_UNROLL
    for (int j = 0; j < 4; ++j) {
      if ((j & distance) != 0) continue;
      NSA_UNROLL
      for (int e = 0; e < kWord; ++e) {
        T& low = x[kWord * j + e];
        T& high = x[kWord * (j + distance) + e];
        const T got = from_lane(upper ? low : high, distance);
        (upper ? low : high) = got;
      }
    }
  }
}

// Results of a lane's two rows to memory, 16 bytes a lane, without shared memory.
template <class As, int kColumns>
NSA_DEVICE void store_held_results(const float (&acc)[kColumns / 8][4],
                                   const PairRows& to,
                                   const LaneRows& rows,
                                   int chunks) {
  NSA_UNROLL
  for (int half = 0; half < 2; ++half) {
    char* row = const_cast<char*>(to.row(rows.row[half]));
    NSA_UNROLL
    for (int j = 0; j < kColumns / 8; j += 4) {
      std::uint32_t words[4];
      NSA_UNROLL
      for (int i = 0; i < 4; ++i) {
        words[i] = As::packed(acc[j + i][2 * half], acc[j + i][2 * half + 1]);
      }
      exchange_words(words);
      const int chunk = j + (lane_index() & 3);
      if (rows.valid[half] && chunk < chunks) {
        store_global16(row + chunk * 16, {words[0], words[1], words[2], words[3]});
      }
    }
  }
}

// Results of a warp (16 rows) to memory, 16 bytes a lane, by way of the warp's rows of a tile.
template <class As, class T, int kColumns>
NSA_DEVICE void store_results(const float (&acc)[kColumns / 8][4],
                              std::uint32_t tile,
                              int warp_row,
                              const PairRows& to,
                              int first,
                              int end,
                              int chunks) {
  const int lane = lane_index();
  warp_sync();
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    const int r = warp_row + (lane >> 2);
    const std::uint32_t column = (lane & 3) * 4;
    store_shared(tile + T::at(r, j) + column, As::packed(acc[j][0], acc[j][1]));
    store_shared(tile + T::at(r + 8, j) + column, As::packed(acc[j][2], acc[j][3]));
  }
  warp_sync();
  constexpr int kChunks = kColumns / 8;
  NSA_UNROLL
  for (int i = 0; i < kChunks / 2; ++i) {
    const int r = (lane + 32 * i) / kChunks;
    const int chunk = (lane + 32 * i) % kChunks;
    if (first + r < end && chunk < chunks) {
      store_global16(const_cast<char*>(to.row(first + r)) + chunk * 16,
                     load_shared16(tile + T::at(warp_row + r, chunk)));
    }
  }
}

}  // namespace nsa::kernels
