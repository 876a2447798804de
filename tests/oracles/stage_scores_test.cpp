// Wrong laws of the block scores and of the choice of blocks against the laws said in plain words.
#include "oracles/attention/selection.h"
#include "oracles/numbers.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

// p_grp in the plainest way; right where nothing else is said.
struct PlainScores {
  // Does the query at t see compressed token i?
  std::function<bool(const Case&, Index t, Index i)> sees = [](const Case& s, Index t, Index i) {
    return i * s.c().d + s.c().l <= t + 1;
  };
  // What a token that it does not see adds to the sum of exponentials.
  std::function<double(double own)> hidden_in_sum = [](double) { return 0.0; };
  std::function<double(const Case&)> root = [](const Case& s) {
    return std::sqrt(static_cast<double>(s.c().d_k));
  };
  std::function<Index(const Case&, Index g, Index i)> group = [](const Case&, Index g, Index) {
    return g;
  };
  std::function<double(const Case&, Index i)> share_of_head = [](const Case&, Index) {
    return 1.0;
  };
  std::function<Vector(const Case&, Index b, Index hq, Index row)> query =
      [](const Case& s, Index b, Index hq, Index row) {
        return row_of(s.right.q, (b * s.c().n_heads + hq) * s.rows() + row);
      };
  // Scores of one row from the probabilities of one head.
  std::function<Vector(const Case&, const Vector& p_C)> scores;
};

Index shared_tokens(const Case& s, Index i, Index j) {
  Index count = 0;
  for (Index u = i * s.c().d; u < i * s.c().d + s.c().l; ++u) {
    count += u / s.c().l_sel == j ? 1 : 0;
  }
  return j < 0 ? 0 : count;
}

double unit(const Case& s) {
  return static_cast<double>(s.c().eq9 == Eq9::fractional ? s.c().l : s.c().d);
}

// p -> p M with M[i,j] = weight(i, j)
using MapOf = std::function<double(const Case&, Index i, Index j)>;
std::function<Vector(const Case&, const Vector&)> through(const MapOf& weight) {
  return [weight](const Case& s, const Vector& p_C) {
    Vector scores;
    for (Index j = 0; j < s.blocks(); ++j) {
      scores.push_back(0);
      for (Index i = 0; i < s.tokens(); ++i) {
        scores.back() += p_C[i] * weight(s, i, j);
      }
    }
    return scores;
  };
}

double right_map(const Case& s, Index i, Index j) {
  return static_cast<double>(shared_tokens(s, i, j)) / unit(s);
}

// Equation 9: block j is the sum over m and n of the probability of token l_sel/d*j + a*m + b*n.
std::function<Vector(const Case&, const Vector&)> equation_nine(Index a, Index b) {
  return [a, b](const Case& s, const Vector& p_C) {
    Vector scores(static_cast<std::size_t>(s.blocks()), 0.0);
    for (Index j = 0; j < s.blocks(); ++j) {
      for (Index m = 0; m < s.c().l_sel / s.c().d; ++m) {
        for (Index n = 0; n < s.c().l / s.c().d; ++n) {
          const Index i = s.c().l_sel / s.c().d * j + a * m + b * n;
          const bool exists = i >= 0 && i < s.tokens();
          scores[j] += exists ? p_C[i] * static_cast<double>(s.c().d) / unit(s) : 0;
        }
      }
    }
    return scores;
  };
}

double logit(
    const Case& s, const PlainScores& plain, Index b, Index g, Index head, Index row, Index i) {
  const Index other = plain.group(s, g, head);
  const Vector key = row_of(s.right.k_cmp, (b * s.c().n_kv_groups + other) * s.tokens() + i);
  return dot(plain.query(s, b, g * s.heads() + head, row), key) / plain.root(s);
}

Vector probabilities(
    const Case& s, const PlainScores& plain, Index b, Index g, Index head, Index row) {
  double sum = 0;
  Vector p_C;
  for (Index i = 0; i < s.tokens(); ++i) {
    const double own = std::exp(logit(s, plain, b, g, head, row, i));
    const bool seen = plain.sees(s, s.right.rows[row], i);
    sum += seen ? own : plain.hidden_in_sum(own);
    p_C.push_back(seen ? own : 0);
  }
  for (double& p : p_C) {
    p /= sum > 0 ? sum : 1;
  }
  return p_C;
}

Tensor p_grp(const Case& s, const PlainScores& plain) {
  return built(
      {s.batch(), s.c().n_kv_groups, s.rows(), s.blocks()}, [&](const std::vector<Index>& at) {
        Vector sum(static_cast<std::size_t>(s.blocks()), 0.0);
        for (Index head = 0; head < s.heads(); ++head) {
          const Vector own = plain.scores(s, probabilities(s, plain, at[0], at[1], head, at[2]));
          for (Index j = 0; j < s.blocks(); ++j) {
            sum[j] += plain.share_of_head(s, head) * own[j];
          }
        }
        return sum;
      });
}

// How blocks are chosen, the README's words one by one; right where nothing else is said.
struct Choice {
  std::function<bool(const Case&, Index t, Index j)> forced = [](const Case& s, Index t, Index j) {
    const Index current = t / s.c().l_sel;
    return (j < s.c().init_blocks && j <= current) ||
           (std::max<Index>(0, current - s.c().local_blocks + 1) <= j && j <= current);
  };
  std::function<bool(const Case&, Index t, Index j)> admitted =
      [](const Case& s, Index t, Index j) { return (j + 1) * s.c().l_sel <= t + 1; };
  // Is block a before block b?
  std::function<bool(const Vector& scores, Index a, Index b)> before =
      [](const Vector& scores, Index a, Index b) {
        return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
      };
  std::function<Index(const Case&)> places = [](const Case& s) { return s.c().n_sel; };
};

// A block is taken where it is forced, or fewer candidates come before it than there are places.
Vector choose(const Case& s, const Choice& how, Index t, const Vector& scores) {
  Vector taken;
  Index forced = 0;
  for (Index j = 0; j < s.blocks(); ++j) {
    forced += how.forced(s, t, j) ? 1 : 0;
  }
  const auto candidate = [&](Index j) { return how.admitted(s, t, j) && !how.forced(s, t, j); };
  for (Index j = 0; j < s.blocks(); ++j) {
    Index better = 0;
    for (Index k = 0; k < s.blocks(); ++k) {
      better += candidate(k) && how.before(scores, k, j) ? 1 : 0;
    }
    if (how.forced(s, t, j) || (candidate(j) && better < how.places(s) - forced)) {
      taken.push_back(static_cast<double>(j));
    }
  }
  taken.resize(static_cast<std::size_t>(s.c().n_sel), -1);
  return taken;
}

Tensor choices(const Case& s, const Choice& how, const Tensor& scores) {
  return built({s.batch(), s.c().n_kv_groups, s.rows(), s.c().n_sel},
               [&](const std::vector<Index>& at) {
                 const Index row = (at[0] * s.c().n_kv_groups + at[1]) * s.rows() + at[2];
                 return choose(s, how, s.right.rows[at[2]], row_of(scores, row));
               });
}

Restatement with(const std::function<void(PlainScores&)>& change) {
  PlainScores plain;
  plain.scores = through(right_map);
  change(plain);
  return [plain](const Case& s, Stage) { return p_grp(s, plain); };
}

Restatement with_map(const MapOf& map) {
  return with([&](PlainScores& plain) { plain.scores = through(map); });
}

Restatements map_laws() {
  return {{"map_shifted_right",
           with_map([](auto& s, Index i, Index j) { return right_map(s, i, j - 1); })},
          {"map_shifted_left",
           with_map([](auto& s, Index i, Index j) { return right_map(s, i, j + 1); })},
          {"map_negated", with_map([](auto& s, Index i, Index j) { return -right_map(s, i, j); })},
          {"map_as_printed", with([](PlainScores& p) { p.scores = equation_nine(-1, -1); })},
          {"map_plus_n", with([](PlainScores& p) { p.scores = equation_nine(1, 1); })},
          {"map_of_first_token", with_map([](auto& s, Index i, Index j) {
             return j * s.c().l_sel <= i * s.c().d && i * s.c().d < (j + 1) * s.c().l_sel ? 1 : 0;
           })},
          {"map_sizes_exchanged", with_map([](auto& s, Index i, Index j) {
             Index count = 0;
             for (Index u = i * s.c().d; u < i * s.c().d + s.c().l_sel; ++u) {
               count += u / s.c().l == j ? 1 : 0;
             }
             return static_cast<double>(count) /
                    static_cast<double>(s.c().eq9 == Eq9::fractional ? s.c().l_sel : s.c().d);
           })},
          {"map_other_unit", with_map([](auto& s, Index i, Index j) {
             return static_cast<double>(shared_tokens(s, i, j)) /
                    (static_cast<double>(s.c().l + s.c().d) - unit(s));
           })},
          {"map_over_block", with_map([](auto& s, Index i, Index j) {
             return static_cast<double>(shared_tokens(s, i, j)) / static_cast<double>(s.c().l_sel);
           })}};
}

// Beside any real logit exp(-10000) is zero; with no other, all tokens are equal.
Tensor finite_sentinel_of_scores(const Case& s, Stage) {
  return built(s.right.p_grp.shape, [&](const std::vector<Index>& at) {
    const Index row = (at[0] * s.c().n_kv_groups + at[1]) * s.rows() + at[2];
    Vector scores = row_of(s.right.p_grp, row);
    for (Index j = 0; j < s.blocks() && s.right.rows[at[2]] + 1 < s.c().l; ++j) {
      for (Index i = 0; i < s.tokens(); ++i) {
        scores[j] +=
            static_cast<double>(s.heads()) * right_map(s, i, j) / static_cast<double>(s.tokens());
      }
    }
    return scores;
  });
}

Restatements probability_laws() {
  const auto own = [](double value) { return value; };
  return {
      {"no_mask", with([](PlainScores& p) { p.sees = [](auto&, Index, Index) { return true; }; })},
      {"normalised_over_all", with([&](PlainScores& p) { p.hidden_in_sum = own; })},
      {"finite_sentinel", finite_sentinel_of_scores},
      {"seen_one_late", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) { return i * s.c().d + s.c().l <= t; };
       })},
      {"seen_when_begun", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) { return i * s.c().d <= t; };
       })},
      {"seen_one_early", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) { return i * s.c().d + s.c().l <= t + 2; };
       })},
      {"last_window_unseen", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) { return (i + 1) * s.c().d + s.c().l <= t + 1; };
       })},
      {"first_window_unseen", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) { return i > 0 && i * s.c().d + s.c().l <= t + 1; };
       })},
      {"next_window_seen", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) {
           return i == 0 || (i - 1) * s.c().d + s.c().l <= t + 1;
         };
       })},
      {"first_row_zero", with([](PlainScores& p) {
         p.sees = [](auto& s, Index t, Index i) {
           return t + 1 > s.c().l && i * s.c().d + s.c().l <= t + 1;
         };
       })},
      {"scale_of_all_heads", with([](PlainScores& p) {
         p.root = [](auto& s) { return std::sqrt(static_cast<double>(s.c().n_heads * s.c().d_k)); };
       })},
      {"base_two", with([](PlainScores& p) {
         p.root = [](auto& s) { return std::sqrt(static_cast<double>(s.c().d_k)) / std::log(2.0); };
       })},
      {"base_two_factor_left", with([](PlainScores& p) {
         p.root = [](auto& s) {
           return std::sqrt(static_cast<double>(s.c().d_k)) / std::log2(std::exp(1.0));
         };
       })},
      {"scale_missing", with([](PlainScores& p) { p.root = [](auto&) { return 1.0; }; })},
      {"scale_twice", with([](PlainScores& p) {
         p.root = [](auto& s) { return static_cast<double>(s.c().d_k); };
       })},
      {"scale_of_values", with([](PlainScores& p) {
         p.root = [](auto& s) { return std::pow(static_cast<double>(s.c().d_v), 0.5); };
       })},
      {"next_groups_keys", with([](PlainScores& p) {
         p.group = [](auto& s, Index g, Index) { return g + 1 == s.c().n_kv_groups ? 0 : g + 1; };
       })},
      {"heads_interleaved", with([](PlainScores& p) {
         p.group = [](auto& s, Index g, Index i) {
           return (g * s.heads() + i) % s.c().n_kv_groups;
         };
       })},
      {"heads_averaged", with([](PlainScores& p) {
         p.share_of_head = [](auto& s, Index) { return 1 / static_cast<double>(s.heads()); };
       })},
      {"first_head_only", with([](PlainScores& p) {
         p.share_of_head = [](auto&, Index head) { return head == 0 ? 1.0 : 0.0; };
       })},
      {"queries_unrotated", with([](PlainScores& p) { p.query = unrotated_query; })}};
}

Restatements score_laws() {
  Restatements all = map_laws();
  all.merge(probability_laws());
  for (Index by = 2; by < 8; ++by) {
    all["groups_shifted_by_" + std::to_string(by)] = with([by](PlainScores& p) {
      p.group = [by](auto& s, Index g, Index) { return (g + by) % s.c().n_kv_groups; };
    });
  }
  return all;
}

TEST(StageScores, EveryLawIsWhatItSays) {
  const Restatements all = score_laws();
  expect_all_restated({Stage::p_grp}, all);
}

TEST(StageScores, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    const Tensor scores = with([](PlainScores&) {})(s, Stage::p_grp);
    EXPECT_LT(largest_difference(scores, s.right.p_grp), 1e-13);
    EXPECT_EQ(choices(s, {}, s.right.p_grp).data, s.stages.right(Stage::blocks).data);
  }
}

// The blocks that follow from wrong scores: from the law's own scores, so that ties are the same.
Restatements choices_from_scores() {
  Restatements all;
  const std::set<std::string> no_order_changed{"map_negated",
                                               "map_other_unit",
                                               "map_over_block",
                                               "finite_sentinel",
                                               "first_row_zero",
                                               "heads_averaged"};
  for (const auto& [name, law] : score_laws()) {
    if (no_order_changed.count(name) > 0) {
      continue;
    }
    all[name] = [name = name](const Case& s, Stage) {
      return choices(s, {}, s.output(name, Stage::p_grp));
    };
  }
  return all;
}

Restatement choosing(const std::function<void(Choice&)>& change) {
  Choice how;
  change(how);
  return [how](const Case& s, Stage) { return choices(s, how, s.right.p_grp); };
}

Restatements wrong_choices() {
  return {{"lowest_scores", choosing([](Choice& c) {
             c.before = [](const Vector& scores, Index a, Index b) {
               return scores[a] < scores[b] || (scores[a] == scores[b] && a < b);
             };
           })},
          {"ties_to_the_higher", choosing([](Choice& c) {
             c.before = [](const Vector& scores, Index a, Index b) {
               return scores[a] > scores[b] || (scores[a] == scores[b] && a > b);
             };
           })},
          {"first_blocks",
           choosing([](Choice& c) { c.before = [](auto&, Index a, Index b) { return a < b; }; })},
          {"one_block_fewer",
           choosing([](Choice& c) { c.places = [](auto& s) { return s.c().n_sel - 1; }; })},
          {"nothing_forced", choosing([](Choice& c) {
             c.forced = [](auto&, Index, Index) { return false; };
             c.admitted = [](auto& s, Index t, Index j) { return j * s.c().l_sel <= t; };
           })},
          {"initial_not_forced", choosing([](Choice& c) {
             c.forced = [](auto& s, Index t, Index j) {
               return j * s.c().l_sel <= t && j > t / s.c().l_sel - s.c().local_blocks;
             };
           })},
          {"one_local_fewer", choosing([](Choice& c) {
             c.forced = [](auto& s, Index t, Index j) {
               const bool past = j * s.c().l_sel <= t;
               return past &&
                      (j < s.c().init_blocks || j > t / s.c().l_sel - s.c().local_blocks + 1);
             };
           })},
          {"scores_in_bfloat16", choosing([](Choice& c) {
             c.before = [](const Vector& scores, Index a, Index b) {
               const double x = in_bfloat16(scores[a]);
               const double y = in_bfloat16(scores[b]);
               return x > y || (x == y && a < b);
             };
           })},
          {"scores_in_float16", choosing([](Choice& c) {
             c.before = [](const Vector& scores, Index a, Index b) {
               const double x = rounded(scores[a], Number::f16);
               const double y = rounded(scores[b], Number::f16);
               return x > y || (x == y && a < b);
             };
           })},
          {"incomplete_current_left_out", choosing([](Choice& c) {
             const auto forced = c.forced;
             c.forced = [forced](auto& s, Index t, Index j) {
               const bool complete = (j + 1) * s.c().l_sel <= t + 1;
               return forced(s, t, j) && (complete || j != t / s.c().l_sel);
             };
           })},
          {"future_blocks",
           choosing([](Choice& c) { c.admitted = [](auto&, Index, Index) { return true; }; })}};
}

// The choice of a query at another place, or under another configuration.
Restatement choosing_as_if(const std::function<void(AttentionConfig&, Index& t)>& change) {
  return [change](const Case& s, Stage) {
    return built({s.batch(), s.c().n_kv_groups, s.rows(), s.c().n_sel},
                 [&](const std::vector<Index>& at) {
                   const Index row = (at[0] * s.c().n_kv_groups + at[1]) * s.rows() + at[2];
                   AttentionConfig c = s.c();
                   Index t = s.right.rows[at[2]];
                   change(c, t);
                   Vector scores = row_of(s.right.p_grp, row);
                   scores.resize(100, 0.0);
                   const auto blocks = select_blocks(c, t, scores).blocks;
                   Vector taken(blocks.begin(), blocks.end());
                   taken.resize(static_cast<std::size_t>(s.c().n_sel), -1);
                   return taken;
                 });
  };
}

// With the first block in its list twice while it is among the last ones too.
Tensor forced_listed_twice(const Case& s, Stage) {
  Tensor out = choices(s, {}, s.right.p_grp);
  const Index n = s.c().n_sel;
  for (Index row = 0; row * n < static_cast<Index>(out.data.size()); ++row) {
    const Index current = s.right.rows[row % s.rows()] / s.c().l_sel;
    if (current >= s.c().local_blocks) {
      continue;
    }
    const auto begin = out.data.begin() + row * n;
    std::copy_backward(begin, begin + n - 1, begin + n);
    *begin = 0;
  }
  return out;
}

Restatements choices_as_if() {
  return {
      {"current_one_late", choosing_as_if([](AttentionConfig&, Index& t) { t -= t > 0; })},
      {"current_one_early", choosing_as_if([](AttentionConfig&, Index& t) { ++t; })},
      {"blocks_counted_in_l", choosing_as_if([](AttentionConfig& c, Index&) { c.l_sel = c.l; })},
      {"forced_listed_twice", forced_listed_twice}};
}

TEST(StageScores, EveryChoiceIsWhatItSays) {
  Restatements all = choices_from_scores();
  all.merge(wrong_choices());
  all.merge(choices_as_if());
  expect_all_restated({Stage::blocks}, all);
}

}  // namespace
}  // namespace oracles::testing
