// Index laws of the kernels against the plainest way to say the same, for all small cases.
#include "nsa/kernels/common/geometry.h"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "nsa/kernels/attend/key_steps.h"
#include "nsa/kernels/choose/params.h"
#include "nsa/kernels/common/params.h"
#include "oracles/attention/selection.h"

namespace nsa::kernels {
namespace {

const Geometry kGeometries[] = {{32, 16, 64, 16, 512, 1, 2},
                                {16, 8, 32, 6, 40, 1, 2},
                                {8, 4, 16, 4, 12, 0, 1},
                                {8, 8, 8, 5, 1, 2, 1},
                                {16, 8, 8, 5, 33, 2, 3}};
constexpr RangeKind kKinds[] = {
    RangeKind::window, RangeKind::compressed, RangeKind::initial, RangeKind::local};

oracles::AttentionConfig config_of(const Geometry& g) {
  oracles::AttentionConfig config;
  config.l = g.l;
  config.d = g.d;
  config.l_sel = g.l_sel;
  config.n_sel = g.n_sel;
  config.w = g.w;
  config.init_blocks = g.init_blocks;
  config.local_blocks = g.local_blocks;
  return config;
}

TEST(Geometry, ForcedAndCandidateBlocksAreTheOraclesOnes) {
  for (const Geometry& g : kGeometries) {
    const auto config = config_of(g);
    for (int t = 0; t < 20 * g.l_sel; ++t) {
      int forced = 0;
      int candidates = 0;
      for (int block = 0; block <= t / g.l_sel + 1; ++block) {
        const bool is_forced = oracles::is_forced(config, t, block);
        const bool is_candidate = oracles::is_candidate(config, t, block);
        ASSERT_EQ(g.is_forced(t, block), is_forced) << t << " " << block;
        ASSERT_EQ(block >= g.init_blocks && block < g.candidates_end(t), is_candidate)
            << t << " " << block;
        forced += is_forced ? 1 : 0;
        candidates += is_candidate ? 1 : 0;
      }
      ASSERT_EQ(g.forced_count(t), forced) << t;
      ASSERT_EQ(g.candidate_count(t), candidates) << t;
      ASSERT_EQ(g.scores_decide(t), candidates > g.n_sel - forced) << t;
    }
  }
}

// The host looks for the first position that scores decide by halving (steps.cpp), and the score kernel divides by multiplying.
TEST(Geometry, ScoresDecideFromOnePositionOn) {
  for (const Geometry& g : kGeometries) {
    ScoreParams p;
    p.common.geometry = g;
    p.by_block = Divider::of(g.l_sel);
    bool decided = false;
    for (int t = 0; t < 40 * g.l_sel; ++t) {
      ASSERT_TRUE(g.scores_decide(t) || !decided) << t;
      decided = g.scores_decide(t);
      ASSERT_EQ(p.candidates_end(t), g.candidates_end(t)) << t;
    }
    ASSERT_TRUE(decided);
  }
}

TEST(Geometry, SharesOfCompressedTokensAreTheirOverlaps) {
  for (const Geometry& g : kGeometries) {
    for (int block = 0; block < 6; ++block) {
      std::map<int, int> shared;
      for (int token = block * g.l_sel; token < (block + 1) * g.l_sel; ++token) {
        for (int i = -g.l; i < 10 * g.l_sel; ++i) {
          if (token >= i * g.d && token < i * g.d + g.l) ++shared[i];
        }
      }
      ASSERT_EQ(static_cast<int>(shared.size()), g.touching());
      int r = 0;
      for (const auto& [token, count] : shared) {
        ASSERT_EQ(token, g.first_touching(block) + r);
        ASSERT_EQ(count, g.shared_tokens(r));
        ++r;
      }
    }
  }
}

// What a query sees, said from the query's side.
bool sees(const Geometry& g, RangeKind kind, int t, int key) {
  switch (kind) {
    case RangeKind::window: return key <= t && key > t - g.w;
    case RangeKind::compressed: return key * g.d + g.l - 1 <= t;
    case RangeKind::initial: return key <= t && key / g.l_sel < g.init_blocks;
    default: {
      const int block = key / g.l_sel;
      return key <= t && block >= g.init_blocks && block > t / g.l_sel - g.local_blocks;
    }
  }
}

TEST(Geometry, RangesOfQueriesAndOfKeysAreTheSameRelation) {
  constexpr int kLength = 150;
  for (const Geometry& g : kGeometries) {
    for (const RangeKind kind : kKinds) {
      const KeyRange range{kind, g};
      const int keys = range.keys_end(kLength);
      for (int t = 0; t < kLength; ++t) {
        for (int key = 0; key < kLength; ++key) {
          const bool wanted = sees(g, kind, t, key);
          const bool exists = kind != RangeKind::compressed || key < g.compressed(kLength - 1);
          if (!exists) continue;
          ASSERT_EQ(key >= range.low(t) && key < range.high(t), wanted) << t << " " << key;
          if (key < range.keys_begin() || key >= keys) {
            ASSERT_FALSE(wanted);
            continue;
          }
          ASSERT_EQ(t >= range.first_query(key) && t < range.end_query(key, kLength), wanted)
              << static_cast<int>(kind) << " " << t << " " << key;
        }
        if (t > 0) {
          ASSERT_GE(range.low(t), range.low(t - 1));
          ASSERT_GE(range.high(t), range.high(t - 1));
        }
      }
    }
  }
}

TEST(Geometry, TheForcedRangesAreTheForcedBlocks) {
  for (const Geometry& g : kGeometries) {
    for (int t = 0; t < 200; ++t) {
      for (int key = 0; key <= t; ++key) {
        const bool initial = sees(g, RangeKind::initial, t, key);
        const bool local = sees(g, RangeKind::local, t, key);
        ASSERT_FALSE(initial && local);
        ASSERT_EQ(initial || local, g.is_forced(t, key / g.l_sel)) << t << " " << key;
      }
    }
  }
}

struct Packed {
  std::vector<std::int32_t> starts;
  Sequences sequences;
};
Packed packed(const std::vector<int>& lengths) {
  Packed p;
  p.starts = {0};
  int longest = 0;
  for (const int length : lengths) {
    p.starts.push_back(p.starts.back() + length);
    longest = larger(longest, length);
  }
  p.sequences = {p.starts.data(), static_cast<int>(lengths.size()), longest, 0};
  return p;
}

const std::vector<std::vector<int>> kLengths = {
    {5}, {64, 64}, {0, 7, 0, 130, 1, 0}, {63, 65, 1}, {1, 1, 1}, {200, 0}};

TEST(Geometry, TilesOfRowsCoverEveryRowOfAChunkOnce) {
  for (const auto& lengths : kLengths) {
    const Packed p = packed(lengths);
    const int tokens = p.starts.back();
    for (const int heads : {1, 3, 6, 16}) {
      for (const int rows : {64, 128}) {
        for (const int chunk : {tokens, 17, 64}) {
          std::vector<int> seen(tokens * heads);
          for (int from = 0; from < tokens; from += chunk) {
            const RowTiles tiles{from, smaller(tokens, from + chunk), heads, rows};
            const std::int64_t slots = tiles.slots(p.sequences.count);
            for (std::int64_t i = 0; i < slots; ++i) {
              const RowTile tile = find_tile(tiles, p.sequences, i);
              ASSERT_LE(tile.end - tile.row, rows);
              for (int row = tile.row; row < tile.end; ++row) {
                const int at = p.starts[tile.sequence] * heads + row;
                ASSERT_LT(at / heads, tiles.to);
                ASSERT_GE(at / heads, from);
                ++seen[at];
              }
            }
          }
          for (const int count : seen) ASSERT_EQ(count, 1);
        }
      }
    }
  }
}

TEST(Geometry, TilesOfKeysCoverEveryKeyOnce) {
  for (const Geometry& g : kGeometries) {
    for (const auto& lengths : kLengths) {
      const Packed p = packed(lengths);
      for (const RangeKind kind : kKinds) {
        const KeyTiles tiles{{kind, g}, 128};
        std::map<std::pair<int, int>, int> seen;
        const std::int64_t slots = tiles.slots(p.sequences.count, p.starts.back());
        for (std::int64_t i = 0; i < slots; ++i) {
          const KeyTile tile = find_keys(tiles, p.sequences, i);
          for (int key = tile.key; key < smaller(tile.end, tile.key + 128); ++key) {
            ++seen[{tile.sequence, key}];
          }
        }
        std::size_t wanted = 0;
        for (std::size_t b = 0; b < lengths.size(); ++b) {
          const KeyRange range{kind, g};
          for (int key = range.keys_begin(); key < range.keys_end(lengths[b]); ++key, ++wanted) {
            ASSERT_EQ((seen[{static_cast<int>(b), key}]), 1);
          }
        }
        ASSERT_EQ(seen.size(), wanted);
      }
    }
  }
}

TEST(Geometry, SlotsOfBlocksDoNotMeet) {
  for (const Geometry& g : kGeometries) {
    for (const auto& lengths : kLengths) {
      const Packed p = packed(lengths);
      std::int64_t free = 0;
      for (int b = 0; b < p.sequences.count; ++b) {
        const std::int64_t slot = block_slot(g, p.sequences, b);
        ASSERT_GE(slot, free);
        free = slot + g.blocks(lengths[b]);
      }
      ASSERT_LE(free, p.starts.back() / g.l_sel + p.sequences.count);
    }
  }
}

TEST(Geometry, SegmentsOfRowsCoverTheRowsThatSeeATile) {
  for (const Geometry& g : kGeometries) {
    for (const RangeKind kind : kKinds) {
      const KeyRange range{kind, g};
      constexpr int kQueries = 150;
      constexpr int kHeads = 3;
      for (int key = range.keys_begin(); key < range.keys_end(kQueries); key += 64) {
        const int end = smaller(key + 64, range.keys_end(kQueries));
        const RowSegments rows = seeing_rows(range, key, end, kQueries, kHeads, 37);
        int next = rows.from;
        for (int i = 0; i < rows.count(); ++i) {
          ASSERT_EQ(rows.begin(i), next);
          // Blocks that run together read the same rows of queries.
          if (kind == RangeKind::compressed && i > 0) {
            ASSERT_EQ(rows.begin(i) % 37, 0);
          }
          ASSERT_GT(rows.end(i), rows.begin(i));
          next = rows.end(i);
        }
        ASSERT_EQ(next, rows.to);
        for (int t = 0; t < kQueries; ++t) {
          for (int k = key; k < end; ++k) {
            if (!sees(g, kind, t, k)) continue;
            ASSERT_LE(rows.from, t * kHeads);
            ASSERT_GE(rows.to, (t + 1) * kHeads);
          }
        }
      }
    }
  }
}

TEST(Geometry, StepsPassEveryVisibleKeyOnce) {
  for (const Geometry& g : kGeometries) {
    const KeyRange ranges[2] = {{RangeKind::initial, g}, {RangeKind::local, g}};
    for (int from = 0; from < 300; from += 7) {
      const int last = from + 10;
      KeySteps<2> steps;
      steps.plan<64>(0, 2, from, last, [&](int s) -> const KeyRange& { return ranges[s]; });
      std::map<std::pair<int, int>, int> passed;
      KeyStep step;
      for (int i = 0; i < steps.all; ++i) {
        if (i == 0) {
          step = steps.first();
        } else {
          steps.advance<64>(step);
        }
        for (int key = step.key; key < smaller(step.key + 64, step.end); ++key) {
          ++passed[{step.source, key}];
        }
      }
      if (steps.all > 0) {
        steps.advance<64>(step);
        ASSERT_GE(step.key, step.end);
      }
      for (int t = from; t <= last; ++t) {
        for (int s = 0; s < 2; ++s) {
          for (int key = ranges[s].low(t); key < ranges[s].high(t); ++key) {
            ASSERT_EQ((passed[{s, key}]), 1);
          }
        }
      }
    }
  }
}

TEST(Geometry, TheDividerDivides) {
  for (int divisor = 1; divisor <= 64; ++divisor) {
    const Divider divider = Divider::of(divisor);
    for (std::int64_t base :
         {0LL, 46340LL, 65536LL, 1LL << 20, (1LL << 30) - 3, (1LL << 31) - 70}) {
      for (std::int64_t r = base; r < base + 70 && r < (1LL << 31); ++r) {
        ASSERT_EQ(divider.quotient(static_cast<int>(r)), r / divisor) << r << " / " << divisor;
      }
    }
  }
}

}  // namespace
}  // namespace nsa::kernels
