// Score kernel of choose/params.h: a block takes 64 queries of a group and 128 compressed tokens, passes through the
// heads and sums their probabilities in registers; only block scores leave.
#pragma once

#include "nsa/kernels/attend/row_tile.h"
#include "nsa/kernels/choose/params.h"
#include "nsa/kernels/common/matrix.h"

namespace nsa::kernels {

template <class E_, int kDk_, class X_>
struct ScoreConfig {
  using E = E_;
  using X = X_;
  static constexpr int kDk = kDk_;
  static constexpr int kRows = 64;
  static constexpr int kThreads = 128;
  static constexpr int kBlocks =
      kDk <= 64 ? 4 : (kDk <= 128 ? 3 : 2);  // of a multiprocessor: bounds registers
  static constexpr int kKeys = 128;
  static constexpr int kPiece = kDk == 128 ? 64 : 32;  // keys of one product: registers
  static constexpr int kMostHeads = 16;                // of a group
  using TileQ = Tile<kRows, kDk>;
  using TileK = Tile<kKeys, kDk>;
  static constexpr int kSumStep = kKeys + 4;  // floats from one row of sums to the next
  static constexpr int kSumBytes = kRows * kSumStep * 4;
  static constexpr int kLseBytes = kRows * kMostHeads * 4;
  static constexpr int kLoadBytes = TileK::kBytes + 2 * TileQ::kBytes;
  static constexpr int kAtLse = kLoadBytes > kSumBytes ? kLoadBytes : kSumBytes;
  static constexpr int kAtShares = kAtLse + kLseBytes;
  static constexpr int kSharedBytes = kAtShares + kKeys * 4;
  static_assert(kSharedBytes <= 163 * 1024, "an A100's block has 163 KiB of shared memory");
};

template <class C>
struct ScoreKernel {
  using E = typename C::E;
  using X = typename C::X;
  using Sums = float[C::kKeys / 8][4];

  const ScoreParams& p;
  RowTile tile;  // queries
  int group;
  int first_block;
  int first_key;  // compressed token of column 0, may be negative
  int warp;
  std::uint32_t shared;

  using Copies = RowCopies<typename C::TileQ, C::kThreads>;

  // Of the group's first head.
  NSA_DEVICE Copies find_queries() const {
    const Common& c = p.common;
    const std::int64_t head = static_cast<std::int64_t>(group) * c.heads.divisor;
    const ByteRows rows{at_sequence(p.q, c.sequences, tile.sequence) + head * p.q.head,
                        p.q.position};
    return Copies(rows, tile.row, tile.end, c.k_chunks, thread_index());
  }
  // The next head's.
  NSA_DEVICE void load_queries(Copies& queries, int buffer) const {
    queries.copy(shared + C::TileK::kBytes + buffer * C::TileQ::kBytes);
    queries.move(p.q.head);
  }

  NSA_DEVICE void load_keys() const {
    const Common& c = p.common;
    const int last = p.compressed(c.sequences.keys(tile.sequence) - 1);
    copy_rows<typename C::TileK, C::kThreads>(shared,
                                              key_rows(c, p.k, tile.sequence, group, c.geometry.d),
                                              first_key,
                                              last,
                                              c.k_chunks,
                                              thread_index());
    const int h = c.heads.divisor;
    const float* lse = p.lse + c.row_index(group, tile.sequence, 0);
    for (int i = thread_index(); i < C::kRows * h; i += C::kThreads) {
      const bool valid = tile.row * h + i < tile.end * h;
      copy4(shared + C::kAtLse + 4 * i, lse + (valid ? tile.row * h + i : 0), valid);
    }
  }

  using Piece = float[C::kPiece / 8][4];

  // Of a lane's two rows.
  struct Rows {
    int visible[2];     // compressed tokens
    float log2_sum[2];  // of one head
  };

  // Logits of one piece of the keys; they are there after X::wait.
  NSA_DEVICE void begin_piece(Piece& s, int buffer, int piece) const {
    X::begin();
    X::template product<E, C::kPiece, C::kDk>(
        s,
        Operand<typename C::TileQ, Major::k>{shared + C::TileK::kBytes + buffer * C::TileQ::kBytes,
                                             0},
        Operand<typename C::TileK, Major::k>{shared, piece * C::kPiece},
        warp);
    X::commit();
  }

  template <bool kMasked>
  NSA_DEVICE void add_probabilities(Sums& sums, const Piece& s, const Rows& rows, int piece) const {
    const Common& c = p.common;
    const int column = first_key + piece * C::kPiece + 2 * (lane_index() & 3);
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      NSA_UNROLL
      for (int j = 0; j < C::kPiece / 8; ++j) {
        NSA_UNROLL
        for (int e = 0; e < 2; ++e) {
          const int key = column + 8 * j + e;
          const float probability =
              exp2_fast(s[j][2 * half + e] * c.scale_log2 - rows.log2_sum[half]);
          const bool seen = !kMasked || (key >= 0 && key < rows.visible[half]);
          sums[piece * (C::kPiece / 8) + j][2 * half + e] += seen ? probability : 0.0F;
        }
      }
    }
  }

  // Adds a head's probabilities, piece after piece of the keys; each is on its way while the one before is used.
  NSA_DEVICE void add_head(Sums& sums, Rows& rows, int head, bool masked) const {
    const Common& c = p.common;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = warp * 16 + (lane_index() >> 2) + 8 * half;
      rows.log2_sum[half] =
          load_shared_float(shared + C::kAtLse + 4 * (row * c.heads.divisor + head)) * kLog2E;
    }
    constexpr int kPieces = C::kKeys / C::kPiece;
    Piece s[2];
    begin_piece(s[0], head & 1, 0);
    NSA_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      if (piece + 1 < kPieces) {
        begin_piece(s[(piece + 1) & 1], head & 1, piece + 1);
        X::template wait<1>(s[piece & 1]);
      } else {
        X::template wait<0>(s[piece & 1]);
      }
      if (masked) {
        add_probabilities<true>(sums, s[piece & 1], rows, piece);
      } else {
        add_probabilities<false>(sums, s[piece & 1], rows, piece);
      }
    }
  }

  NSA_DEVICE void store_sums(const Sums& sums) const {
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = warp * 16 + (lane_index() >> 2) + 8 * half;
      NSA_UNROLL
      for (int j = 0; j < C::kKeys / 8; ++j) {
        const std::uint32_t to = shared + 4 * (row * C::kSumStep + 8 * j + 2 * (lane_index() & 3));
        store_shared_float(to, sums[j][2 * half]);
        store_shared_float(to + 4, sums[j][2 * half + 1]);
      }
    }
  }

  [[nodiscard]] NSA_DEVICE int tile_block_count() const {
    return smaller(p.tile_blocks, p.common.max_blocks - first_block);
  }

  // Block scores where p.by_lanes: each block is made of the sums of three neighbouring lanes, ((0 + 1) + (2 + 3)) + 4 of its five
  // columns. Four lanes have the columns 8j + 2t + e; of two j, even lanes make the blocks of the first one, odd lanes those of
  // the second.
  static constexpr int kLaneBlocks = C::kKeys / 16;  // a lane's of a row: every fourth one
  NSA_DEVICE void store_lane_scores(const Sums& sums) const {
    const int t = lane_index() & 3;
    const bool odd = (t & 1) != 0;
    const float share_x = odd ? p.shares[2] : p.shares[0];
    const float share_y = odd ? p.shares[3] : p.shares[1];
    const int blocks = tile_block_count();
    const int block = (t >> 1) + 2 * (t & 1);
    char* scores = at_sequence(p.scores, p.common.sequences, tile.sequence) + group * p.scores.head;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + warp * 16 + (lane_index() >> 2) + 8 * half;
      auto* to = reinterpret_cast<float*>(scores + row * p.scores.position) + first_block;
      // What the lane has of the blocks that its columns belong to.
      const auto own = [&](int j) {
        return share_x * sums[j][2 * half] + share_y * sums[j][2 * half + 1];
      };
      NSA_UNROLL
      for (int m = 0; m < kLaneBlocks; ++m) {
        const float first = own(2 * m);
        const float second = own(2 * m + 1);
        const float other = shuffle_xor(odd ? first : second, 1);
        // The fifth column is the first one of the even lane after the next one.
        const float next = 2 * m + 2 < C::kKeys / 8 ? sums[2 * m + 2][2 * half] : 0.0F;
        const bool right = t >= 2;
        const float near =
            shuffle_xor(right ? sums[2 * m][2 * half] : sums[2 * m + 1][2 * half], 2);
        const float far = shuffle_xor(right ? sums[2 * m + 1][2 * half] : next, 2);
        const float far_of_even = shuffle_xor(far, 1);
        const float score =
            ((odd ? second : first) + other) + p.shares[4] * (odd ? far_of_even : near);
        if (row < tile.end && 4 * m + block < blocks) to[4 * m + block] = score;
      }
    }
  }

  // Block scores from the sums; the same order for every block.
  NSA_DEVICE void store_scores() const {
    const Common& c = p.common;
    const int blocks = tile_block_count();
    const int rows = tile.end - tile.row;
    char* scores = at_sequence(p.scores, c.sequences, tile.sequence) + group * p.scores.head;
    constexpr int kWarps = C::kThreads / 32;
    constexpr int kAtOnce = 8;  // rows: each share is read once for them
    static_assert(C::kRows % (kWarps * kAtOnce) == 0, "all of a warp's rows are in the tile");
    for (int row = warp; row < rows; row += kWarps * kAtOnce) {
      for (int block = lane_index(); block < blocks; block += 32) {
        float score[kAtOnce] = {};
        const std::uint32_t sums = shared + 4 * (row * C::kSumStep + block * p.stride);
        for (int r = 0; r < p.touching; ++r) {
          const float share = load_shared_float(shared + C::kAtShares + 4 * r);
          NSA_UNROLL
          for (int i = 0; i < kAtOnce; ++i) {
            score[i] += load_shared_float(sums + 4 * (i * kWarps * C::kSumStep + r)) * share;
          }
        }
        NSA_UNROLL
        for (int i = 0; i < kAtOnce; ++i) {
          const int at = row + i * kWarps;
          if (at >= rows) break;
          reinterpret_cast<float*>(scores + (tile.row + at) *
                                                p.scores.position)[first_block + block] = score[i];
        }
      }
    }
  }

  NSA_DEVICE void run() const {
    Sums sums;
    clear<C::kKeys>(sums);
    const int heads = p.common.heads.divisor;
    Rows rows;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + warp * 16 + (lane_index() >> 2) + 8 * half;
      rows.visible[half] = p.compressed(p.common.sequences.first + row);
    }
    const Geometry& g = p.common.geometry;
    const int first_query = p.common.sequences.first + tile.row;
    const bool masked = first_key < 0 || first_key + C::kKeys > p.compressed(first_query);
    for (int r = thread_index(); !p.by_lanes && r < p.touching; r += C::kThreads) {
      const float share = static_cast<float>(g.shared_tokens(r)) / p.share_unit;
      store_shared_float(shared + C::kAtShares + 4 * r, share);
    }
    load_keys();
    Copies queries = find_queries();
    load_queries(queries, 0);
    copy_commit();
    for (int head = 0; head < heads; ++head) {
      copy_wait<0>();
      X::publish();
      block_sync();
      if (head + 1 < heads) {
        load_queries(queries, (head + 1) & 1);
        copy_commit();
      }
      add_head(sums, rows, head, masked);
    }
    if (p.by_lanes) {
      store_lane_scores(sums);
      return;
    }
    block_sync();
    store_sums(sums);
    block_sync();
    store_scores();
  }
};

template <class C>
NSA_KERNEL(C::kThreads, C::kBlocks)
score_blocks(NSA_PARAMETER ScoreParams p) {
  NSA_SHARED(shared);
  const Common& c = p.common;
  const int slot = p.key_tiles.quotient(block_x());
  RowTiles tiles = p.tiles;
  tiles.rows = C::kRows;  // as they are; constants, so that nothing is divided
  tiles.heads = 1;
  const RowTile tile = find_tile(tiles, c.sequences, slot);
  if (tile.row >= tile.end) return;
  const int first_block = (block_x() - slot * p.key_tiles.divisor) * p.tile_blocks;
  const int last = c.sequences.first + tile.end - 1;
  if (!p.every_block && (last < p.first_deciding || first_block >= p.candidates_end(last))) return;
  const int warp = warp_index();
  const ScoreKernel<C> kernel{p,
                              tile,
                              block_y(),
                              first_block,
                              first_block * p.stride - (p.touching - p.stride),
                              warp,
                              shared_address(shared)};
  kernel.run();
}

}  // namespace nsa::kernels
