// Wrong laws of the choice of blocks, from right scores.
#include <algorithm>
#include <span>
#include <utility>

#include "oracles/attention/selection.h"
#include "oracles/laws/stage_rules.h"

namespace oracles {
namespace {

std::vector<std::int64_t> usual_choice(const AttentionConfig& config,
                                       std::int64_t t,
                                       std::span<const double> scores) {
  return select_blocks(config, t, scores).blocks;
}

StageRule choice_rule(std::string_view name,
                      std::string_view about,
                      Choice choice,
                      std::function<bool(const StageInputs&, Stage)> makes_sense = {}) {
  return {{name, {Stage::blocks}, about},
          [choice](const StageInputs& in, Stage) {
            return chosen_blocks(in, in.forward.result.p_grp, choice);
          },
          std::move(makes_sense)};
}

// The usual choice under another config, or under other scores.
template <typename Change>
std::vector<std::int64_t> with_scores(const AttentionConfig& config,
                                      std::int64_t t,
                                      std::span<const double> scores,
                                      Change change) {
  std::vector<double> changed(scores.begin(), scores.end());
  for (std::size_t j = 0; j < changed.size(); ++j) {
    changed[j] = change(changed[j], j);
  }
  return usual_choice(config, t, changed);
}

// As many places as usual, the best first, from the blocks that `may` admits.
template <typename May>
std::vector<std::int64_t> best_of(const AttentionConfig& config,
                                  std::span<const double> scores,
                                  std::vector<std::int64_t> taken,
                                  May may) {
  std::vector<std::int64_t> rest;
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(scores.size()); ++j) {
    if (may(j)) {
      rest.push_back(j);
    }
  }
  std::stable_sort(rest.begin(), rest.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] > scores[b];
  });
  for (const std::int64_t j : rest) {
    if (static_cast<std::int64_t>(taken.size()) < config.n_sel) {
      taken.push_back(j);
    }
  }
  return taken;
}

std::vector<std::int64_t> forced_blocks(const AttentionConfig& config,
                                        std::int64_t t,
                                        std::size_t count) {
  std::vector<std::int64_t> forced;
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(count); ++j) {
    if (is_forced(config, t, j)) {
      forced.push_back(j);
    }
  }
  return forced;
}

}  // namespace

Tensor chosen_blocks(const StageInputs& in, const Tensor& scores, Choice choice) {
  const Sizes& n = in.sizes();
  const std::int64_t blocks = scores.shape[3];
  Tensor result = filled({n.batch, n.groups, n.rows, in.config.n_sel}, -1.0);
  for (std::int64_t place = 0; place < n.batch_groups() * n.rows; ++place) {
    const std::span<const double> row(scores.data.data() + place * blocks,
                                      static_cast<std::size_t>(blocks));
    std::vector<std::int64_t> list =
        choice(in.config, in.forward.projections.rows[place % n.rows], row);
    std::sort(list.begin(), list.end());
    std::copy_n(list.begin(),
                std::min(static_cast<std::int64_t>(list.size()), in.config.n_sel),
                result.data.begin() + place * in.config.n_sel);
  }
  return result;
}

std::vector<StageRule> choice_rules() {
  using Config = AttentionConfig;
  using Index = std::int64_t;
  using Row = std::span<const double>;
  return {choice_rule("lowest_scores",
                      "the candidates with the lowest scores",
                      [](const Config& c, Index t, Row scores) {
                        return with_scores(c, t, scores, [](double s, std::size_t) { return -s; });
                      }),
          choice_rule("ties_to_the_higher",
                      "of equal scores the higher index first",
                      [](const Config& c, Index t, Row scores) {
                        std::vector<std::int64_t> taken = forced_blocks(c, t, scores.size());
                        const std::vector<double> turned(scores.rbegin(), scores.rend());
                        const auto last = static_cast<Index>(scores.size()) - 1;
                        for (Index& j : taken) {
                          j = last - j;
                        }
                        taken = best_of(c, turned, std::move(taken), [&](Index j) {
                          return is_candidate(c, t, last - j);
                        });
                        for (Index& j : taken) {
                          j = last - j;
                        }
                        return taken;
                      }),
          choice_rule("first_blocks",
                      "the candidates with the lowest indices, whatever their scores",
                      [](const Config& c, Index t, Row scores) {
                        return with_scores(c, t, scores, [](double, std::size_t) { return 0.0; });
                      }),
          choice_rule("one_block_fewer",
                      "n_sel - 1 blocks where scores decide",
                      [](const Config& c, Index t, Row scores) {
                        std::vector<std::int64_t> taken = usual_choice(c, t, scores);
                        Config fewer = c;
                        fewer.n_sel -= 1;
                        return static_cast<Index>(taken.size()) == c.n_sel &&
                                       static_cast<Index>(
                                           forced_blocks(c, t, scores.size()).size()) < c.n_sel
                                   ? usual_choice(fewer, t, scores)
                                   : taken;
                      }),
          choice_rule("nothing_forced",
                      "the best blocks up to the current one, none forced",
                      [](const Config& c, Index t, Row scores) {
                        return best_of(c, scores, {}, [&](Index j) { return j <= t / c.l_sel; });
                      }),
          choice_rule(
              "initial_not_forced",
              "no initial block forced",
              [](const Config& c, Index t, Row scores) {
                Config other = c;
                other.init_blocks = 0;
                return usual_choice(other, t, scores);
              },
              [](const StageInputs& in, Stage) { return in.config.init_blocks > 0; }),
          choice_rule(
              "one_local_fewer",
              "local_blocks - 1 blocks forced at the end",
              [](const Config& c, Index t, Row scores) {
                Config other = c;
                other.local_blocks -= 1;
                return usual_choice(other, t, scores);
              },
              [](const StageInputs& in, Stage) { return in.config.local_blocks > 1; }),
          choice_rule("future_blocks",
                      "blocks after the current one are candidates too",
                      [](const Config& c, Index t, Row scores) {
                        return best_of(c, scores, forced_blocks(c, t, scores.size()), [&](Index j) {
                          return !is_forced(c, t, j);
                        });
                      })};
}

}  // namespace oracles
