// Wrong laws of the choice of blocks, from right scores.
#include <algorithm>
#include <span>
#include <utility>

#include "oracles/attention/selection.h"
#include "oracles/laws/families.h"
#include "oracles/numbers.h"

namespace oracles {
namespace {

using Config = AttentionConfig;
using Index = std::int64_t;
using Row = std::span<const double>;
using Blocks = std::vector<Index>;

StageLaw choice_law(std::string_view name,
                    std::string_view about,
                    Choice choice,
                    std::function<bool(const Stages&, Stage)> makes_sense = {}) {
  return {{name, about},
          {Stage::blocks},
          [choice](const Stages& in, Stage) {
            return chosen_blocks(in, in.input(Stage::p_grp), choice);
          },
          std::move(makes_sense)};
}

// The usual choice from other scores.
template <typename Change>
Blocks with_scores(const Config& config, Index t, Row scores, Change change) {
  std::vector<double> changed(scores.begin(), scores.end());
  std::transform(changed.begin(), changed.end(), changed.begin(), change);
  return usual_choice(config, t, changed);
}

// The usual choice of a query that may look beyond the last block, which has no score.
Blocks padded_choice(const Config& config, Index t, Row scores) {
  std::vector<double> padded(scores.begin(), scores.end());
  padded.resize(
      std::max<std::size_t>(padded.size(), static_cast<std::size_t>(t / config.l_sel + 1)), 0.0);
  return usual_choice(config, t, padded);
}

// As many places as usual, the best first, from the blocks that `may` admits.
template <typename May>
Blocks best_of(const Config& config, Row scores, Blocks taken, May may) {
  Blocks rest;
  for (Index j = 0; j < static_cast<Index>(scores.size()); ++j) {
    if (may(j)) {
      rest.push_back(j);
    }
  }
  std::stable_sort(
      rest.begin(), rest.end(), [&](Index a, Index b) { return scores[a] > scores[b]; });
  for (const Index j : rest) {
    if (static_cast<Index>(taken.size()) < config.n_sel) {
      taken.push_back(j);
    }
  }
  return taken;
}

Blocks forced_blocks(const Config& config, Index t, std::size_t count) {
  Blocks forced;
  for (Index j = 0; j < static_cast<Index>(count); ++j) {
    if (is_forced(config, t, j)) {
      forced.push_back(j);
    }
  }
  return forced;
}

Blocks ties_to_the_higher(const Config& c, Index t, Row scores) {
  const auto last = static_cast<Index>(scores.size()) - 1;
  const auto turn = [&](Blocks blocks) {
    for (Index& j : blocks) {
      j = last - j;
    }
    return blocks;
  };
  const std::vector<double> turned(scores.rbegin(), scores.rend());
  return turn(best_of(c, turned, turn(forced_blocks(c, t, scores.size())), [&](Index j) {
    return is_candidate(c, t, last - j);
  }));
}

Blocks one_block_fewer(const Config& c, Index t, Row scores) {
  Blocks taken = usual_choice(c, t, scores);
  Config fewer = c;
  fewer.n_sel -= 1;
  const bool scores_decide =
      static_cast<Index>(taken.size()) == c.n_sel &&
      static_cast<Index>(forced_blocks(c, t, scores.size()).size()) < c.n_sel;
  return scores_decide ? usual_choice(fewer, t, scores) : taken;
}

// The place that the current block leaves empty is filled with the next best one.
Blocks incomplete_current_left_out(const Config& c, Index t, Row scores) {
  const Index current = t / c.l_sel;
  if (t + 1 == (current + 1) * c.l_sel) {
    return usual_choice(c, t, scores);
  }
  Blocks forced = forced_blocks(c, t, scores.size());
  std::erase(forced, current);
  return best_of(c, scores, std::move(forced), [&](Index j) { return is_candidate(c, t, j); });
}

// Where the first and the last blocks overlap, those in both are listed twice.
Blocks forced_listed_twice(const Config& c, Index t, Row scores) {
  Blocks taken = usual_choice(c, t, scores);
  const Index current = t / c.l_sel;
  for (Index j = std::max<Index>(0, current - c.local_blocks + 1); j < c.init_blocks; ++j) {
    if (j <= current) {
      taken.push_back(j);
    }
  }
  std::sort(taken.begin(), taken.end());
  taken.resize(std::min(taken.size(), static_cast<std::size_t>(c.n_sel)));
  return taken;
}

template <typename Change>
Blocks with_config(const Config& config, Index t, Row scores, Change change) {
  Config other = config;
  change(other);
  return padded_choice(other, t, scores);
}

std::vector<StageLaw> order_laws() {
  return {choice_law("lowest_scores",
                     "the candidates with the lowest scores",
                     [](const Config& c, Index t, Row scores) {
                       return with_scores(c, t, scores, [](double score) { return -score; });
                     }),
          choice_law(
              "ties_to_the_higher", "of equal scores the higher index first", ties_to_the_higher),
          choice_law("first_blocks",
                     "the candidates with the lowest indices, whatever their scores",
                     [](const Config& c, Index t, Row scores) {
                       return with_scores(c, t, scores, [](double) { return 0.0; });
                     }),
          choice_law("scores_in_bfloat16",
                     "from scores rounded to bfloat16",
                     [](const Config& c, Index t, Row scores) {
                       return with_scores(
                           c, t, scores, [](double score) { return rounded(score, Number::bf16); });
                     }),
          choice_law("scores_in_float16",
                     "from scores rounded to float16",
                     [](const Config& c, Index t, Row scores) {
                       return with_scores(
                           c, t, scores, [](double score) { return rounded(score, Number::f16); });
                     })};
}

}  // namespace

Blocks usual_choice(const Config& config, Index t, Row scores) {
  return select_blocks(config, t, scores).blocks;
}

Tensor chosen_blocks(const Stages& in, const Tensor& scores, Choice choice) {
  const Sizes& n = in.sizes();
  const Index n_sel = in.config().n_sel;
  const Index blocks = scores.shape[3];
  Tensor result = filled(in.shape_of(Stage::blocks), -1.0);
  for (Index place = 0; place < n.batch_groups() * n.rows; ++place) {
    const Row row(scores.data.data() + place * blocks, static_cast<std::size_t>(blocks));
    Blocks list = choice(in.config(), in.rows()[place % n.rows], row);
    std::sort(list.begin(), list.end());
    std::copy_n(list.begin(),
                std::min(static_cast<Index>(list.size()), n_sel),
                result.data.begin() + place * n_sel);
  }
  return result;
}

std::vector<StageLaw> choice_laws() {
  std::vector<StageLaw> laws = {
      choice_law("one_block_fewer", "n_sel - 1 blocks where scores decide", one_block_fewer),
      choice_law("nothing_forced",
                 "the best blocks up to the current one, none forced",
                 [](const Config& c, Index t, Row scores) {
                   return best_of(c, scores, {}, [&](Index j) { return j <= t / c.l_sel; });
                 }),
      choice_law(
          "initial_not_forced",
          "no initial block forced",
          [](const Config& c, Index t, Row scores) {
            return with_config(c, t, scores, [](Config& other) { other.init_blocks = 0; });
          },
          [](const Stages& in, Stage) { return in.config().init_blocks > 0; }),
      choice_law(
          "one_local_fewer",
          "local_blocks - 1 blocks forced at the end",
          [](const Config& c, Index t, Row scores) {
            return with_config(c, t, scores, [](Config& other) { other.local_blocks -= 1; });
          },
          [](const Stages& in, Stage) { return in.config().local_blocks > 1; }),
      choice_law("future_blocks",
                 "blocks after the current one are candidates too",
                 [](const Config& c, Index t, Row scores) {
                   return best_of(c, scores, forced_blocks(c, t, scores.size()), [&](Index j) {
                     return !is_forced(c, t, j);
                   });
                 }),
      choice_law("incomplete_current_left_out",
                 "the current block is not chosen while it is incomplete",
                 incomplete_current_left_out),
      choice_law("current_one_late",
                 "the current block is taken for that of the token before the query",
                 [](const Config& c, Index t, Row scores) {
                   return usual_choice(c, std::max<Index>(0, t - 1), scores);
                 }),
      choice_law(
          "current_one_early",
          "the current block is taken for that of the token after the query",
          [](const Config& c, Index t, Row scores) { return padded_choice(c, t + 1, scores); }),
      choice_law(
          "blocks_counted_in_l",
          "the current block is t / l: l in place of l_sel",
          [](const Config& c, Index t, Row scores) {
            return with_config(c, t, scores, [](Config& other) { other.l_sel = other.l; });
          },
          [](const Stages& in, Stage) { return in.config().l != in.config().l_sel; }),
      choice_law("forced_listed_twice",
                 "a block forced both at the start and at the end is listed twice",
                 forced_listed_twice,
                 [](const Stages& in, Stage) { return in.config().init_blocks > 0; })};
  return joined({laws, order_laws()});
}

}  // namespace oracles
