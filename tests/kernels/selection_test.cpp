// The choice of blocks alone, on scores that no attention would give: as many candidates as each of its loops can have, equal
// scores, infinities, NaN.
#include "oracles/attention/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "nsa/kernels/branches.h"
#include "tests/kernels/judge/case.h"

namespace nsa::kernels {
namespace {

constexpr std::int64_t kQueries = 3;
constexpr int kGroups = 2;

Problem problem_at(std::int64_t first, int places) {
  Problem p;
  p.length = kQueries;
  p.first = first;
  p.groups = kGroups;
  p.heads = 1;
  p.d_k = 64;
  p.d_v = 64;
  p.l = 16;
  p.d = 8;
  p.l_sel = 16;
  p.n_sel = places + 3;
  p.w = 16;
  return p;
}

using Scores = std::vector<float>;  // [G,S,N]

std::vector<std::int32_t> selected(const Problem& p, const Scores& scores) {
  const std::int64_t n = p.block_count();
  std::vector<std::int32_t> blocks(kGroups * kQueries * p.n_sel, -7);
  select(p,
         {scores.data(), kGroups * kQueries * n, kQueries * n, n},
         nullptr,
         {blocks.data(), kGroups * kQueries * p.n_sel, kQueries * p.n_sel, p.n_sel},
         nullptr);
  return blocks;
}

void expect_right(const Problem& p, const Scores& scores) {
  const std::int64_t n = p.block_count();
  const std::vector<std::int32_t> blocks = selected(p, scores);
  for (std::int64_t row = 0; row < kGroups * kQueries; ++row) {
    const std::vector<double> row_scores(scores.begin() + row * n, scores.begin() + (row + 1) * n);
    auto wanted =
        oracles::select_blocks(judge::config_of(p), p.first + row % kQueries, row_scores).blocks;
    wanted.resize(p.n_sel, -1);
    const std::vector<std::int64_t> got(blocks.begin() + row * p.n_sel,
                                        blocks.begin() + (row + 1) * p.n_sel);
    ASSERT_EQ(got, wanted) << "position " << p.first + row % kQueries << " places " << p.n_sel - 3;
  }
}

enum class Kind { any, few_values, all_equal, tiny, not_finite };

Scores drawn_scores(const Problem& p, Kind kind, std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0F, -0.0F, kInfinity, -kInfinity, std::nanf(""), 1.0F, 1e-42F};
  Scores scores(kGroups * kQueries * p.block_count());
  for (auto& x : scores) {
    const float uniform = std::uniform_real_distribution<float>(0, 1)(random);
    switch (kind) {
      case Kind::any: x = uniform; break;
      case Kind::few_values: x = std::floor(uniform * 4) / 4; break;
      case Kind::all_equal: x = 0.25F; break;
      case Kind::tiny: x = std::exp(-90 * uniform); break;
      case Kind::not_finite: x = special[random() % std::size(special)]; break;
    }
  }
  return scores;
}

// A lane of the warp has one candidate, two, .., 32, or more than it keeps.
TEST(Selection, IsTheOraclesForAnyNumberOfCandidates) {
  std::mt19937 random(1);
  for (const std::int64_t candidates :
       {0, 1, 12, 13, 14, 31, 32, 33, 64, 65, 128, 129, 256, 257, 512, 513, 1024, 1025, 1500}) {
    for (const int places : {1, 13, 29}) {
      // The second query is the last one of its block, so that the third has a candidate more.
      const Problem p = problem_at((candidates + 3) * 16 - 2, places);
      for (const Kind kind :
           {Kind::any, Kind::few_values, Kind::all_equal, Kind::tiny, Kind::not_finite}) {
        expect_right(p, drawn_scores(p, kind, random));
      }
    }
  }
}

}  // namespace
}  // namespace nsa::kernels
