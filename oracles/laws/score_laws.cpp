// Wrong laws of the block scores, from right queries and compressed keys, and the right choice of
// blocks from such scores.
#include <algorithm>
#include <utility>

#include "oracles/attention/block_scores.h"
#include "oracles/laws/attend_law.h"
#include "oracles/laws/families.h"
#include "oracles/laws/probability_laws.h"

namespace oracles {
namespace {

// M[i,j]
using Weight = double (*)(const AttentionConfig&, std::int64_t i, std::int64_t j);

double right_weight(const AttentionConfig& c, std::int64_t i, std::int64_t j) {
  return static_cast<double>(overlap(c, i, j)) /
         static_cast<double>(c.eq9 == Eq9::fractional ? c.l : c.d);
}

enum class Heads { summed, averaged, first };

// How p_grp is made; right where nothing else is said.
struct ScoreTerms {
  AttendTerms probabilities = {};
  Weight weight = right_weight;
  Heads heads = Heads::summed;
};

Tensor scores_under(const Stages& in, const ScoreTerms& terms) {
  const AttentionConfig& c = in.config();
  const Sizes& n = in.sizes();
  const AttendUnder attend(in, Branch::cmp, terms.probabilities);
  Tensor scores = zeros(in.shape_of(Stage::p_grp));
  const std::int64_t blocks = scores.shape.back();
  std::vector<double> map_CN;
  for (std::int64_t i = 0; i < c.compressed_count(n.length); ++i) {
    for (std::int64_t j = 0; j < blocks; ++j) {
      map_CN.push_back(terms.weight(c, i, j));
    }
  }
  const std::int64_t heads = terms.heads == Heads::first ? 1 : n.heads;
  const double share = terms.heads == Heads::averaged ? 1 / static_cast<double>(n.heads) : 1;
  for_each_row(n, in.layer().threads, [&](std::int64_t group, std::int64_t row, auto& p_hK) {
    const KeyList keys = attend.probabilities(group, row, p_hK);
    double* const scores_N = scores.data.data() + (group * n.rows + row) * blocks;
    auto p = p_hK.begin();
    for (std::int64_t head = 0; head < heads; ++head) {
      for (const KeyRange& range : keys) {
        for (std::int64_t i = range.begin; i < range.end; ++i, ++p) {
          for (std::int64_t j = 0; *p != 0 && j < blocks; ++j) {
            scores_N[j] += share * *p * map_CN[i * blocks + j];
          }
        }
      }
    }
  });
  return scores;
}

// For stage blocks the right choice from such scores.
StageLaw score_law(std::string_view name,
                   std::string_view about,
                   const ScoreTerms& terms,
                   std::function<bool(const Stages&, Stage)> makes_sense = {}) {
  return {{name, about},
          {Stage::p_grp, Stage::blocks},
          [terms](const Stages& in, Stage stage) {
            Tensor scores = scores_under(in, terms);
            return stage == Stage::p_grp ? scores : chosen_blocks(in, scores, usual_choice);
          },
          std::move(makes_sense)};
}

// A law that changes no order of scores.
StageLaw of_scores_only(StageLaw law) {
  law.stages = {Stage::p_grp};
  return law;
}

// How often block j counts compressed token i where token l_sel/d * j + sm * m + sn * n counts for
// every m < l_sel/d and n < l/d (equation 9 of the paper), over the eq9 variant's unit. The right
// signs are +1 and -1.
double equation_nine(
    const AttentionConfig& c, std::int64_t i, std::int64_t j, std::int64_t sm, std::int64_t sn) {
  std::int64_t count = 0;
  for (std::int64_t m = 0; m < c.l_sel / c.d; ++m) {
    for (std::int64_t n = 0; n < c.l / c.d; ++n) {
      count += c.l_sel / c.d * j + sm * m + sn * n == i ? 1 : 0;
    }
  }
  const auto unit = static_cast<double>(c.eq9 == Eq9::fractional ? c.l / c.d : 1);
  return static_cast<double>(count) / unit;
}

std::vector<StageLaw> map_laws() {
  using Config = AttentionConfig;
  using Index = std::int64_t;
  return {
      score_law("map_shifted_right",
                "M[i, j-1] in place of M[i, j]",
                {.weight = [](const Config& c,
                              Index i,
                              Index j) { return j == 0 ? 0.0 : right_weight(c, i, j - 1); }}),
      score_law(
          "map_shifted_left",
          "M[i, j+1] in place of M[i, j]",
          {.weight = [](const Config& c, Index i, Index j) { return right_weight(c, i, j + 1); }}),
      score_law(
          "map_as_printed",
          "equation 9 as the paper prints it: token l_sel/d*j - m - n",
          {.weight =
               [](const Config& c, Index i, Index j) { return equation_nine(c, i, j, -1, -1); }}),
      score_law(
          "map_plus_n",
          "equation 9 with token l_sel/d*j + m + n",
          {.weight =
               [](const Config& c, Index i, Index j) { return equation_nine(c, i, j, 1, 1); }}),
      score_law("map_of_first_token",
                "each compressed token counts for the block of its first token, wholly",
                {.weight = [](const Config& c,
                              Index i,
                              Index j) { return i * c.d / c.l_sel == j ? 1.0 : 0.0; }}),
      score_law("map_sizes_exchanged",
                "windows of l_sel tokens and blocks of l: l and l_sel exchanged",
                {.weight =
                     [](const Config& c, Index i, Index j) {
                       Config other = c;
                       std::swap(other.l, other.l_sel);
                       return right_weight(other, i, j);
                     }},
                [](const Stages& in, Stage) { return in.config().l != in.config().l_sel; }),
      // The choice from such scores is that of the lowest right ones.
      of_scores_only(score_law(
          "map_negated",
          "-M in place of M",
          {.weight = [](const Config& c, Index i, Index j) { return -right_weight(c, i, j); }})),
      of_scores_only(
          score_law("map_other_unit",
                    "overlap/d for fractional, overlap/l for overlap",
                    {.weight =
                         [](const Config& c, Index i, Index j) {
                           Config other = c;
                           other.eq9 = c.eq9 == Eq9::fractional ? Eq9::overlap : Eq9::fractional;
                           return right_weight(other, i, j);
                         }},
                    [](const Stages& in, Stage) { return in.config().l != in.config().d; })),
      of_scores_only(score_law(
          "map_over_block",
          "overlap/l_sel: the share of the block in place of that of the token",
          {.weight =
               [](const Config& c, Index i, Index j) {
                 return static_cast<double>(overlap(c, i, j)) / static_cast<double>(c.l_sel);
               }},
          [](const Stages& in, Stage) {
            const Config& c = in.config();
            return c.l_sel != (c.eq9 == Eq9::fractional ? c.l : c.d);
          }))};
}

}  // namespace

std::vector<StageLaw> score_laws() {
  const auto of_keys = [](std::string_view name, std::string_view about, const AttendTerms& terms) {
    StageLaw law = score_law(name, about, {terms});
    // A first row has forced blocks alone, and a sentinel shows in no row with a candidate.
    const bool keeps_order = terms.sentinel || terms.left_out != nullptr;
    return keeps_order ? of_scores_only(std::move(law)) : law;
  };
  const auto no_mask = [](const Query& query) { return first_keys(query.key_count); };
  return joined(
      {map_laws(),
       {of_keys("no_mask", "every compressed token is seen, future ones too", {.keys = no_mask})},
       visibility_laws(of_keys),
       softmax_laws(of_keys),
       group_laws(of_keys),
       {of_scores_only(score_law("heads_averaged",
                                 "mean over the heads",
                                 {.heads = Heads::averaged},
                                 has_heads_in_groups)),
        score_law("first_head_only",
                  "the first head's alone",
                  {.heads = Heads::first},
                  has_heads_in_groups)}});
}

}  // namespace oracles
