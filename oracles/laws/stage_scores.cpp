// Wrong laws of the block scores, from right queries and compressed keys, and the right choice of
// blocks from such scores.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "oracles/attention/block_scores.h"
#include "oracles/attention/selection.h"
#include "oracles/laws/stage_rules.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrainRows = 16;
constexpr double kSentinel = -10000;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

bool right_sight(const AttentionConfig& c, std::int64_t t, std::int64_t i) {
  return i * c.d + c.l - 1 <= t;
}
double right_root(const AttentionConfig& c) {
  return std::sqrt(static_cast<double>(c.d_k));
}
double right_weight(const AttentionConfig& c, std::int64_t i, std::int64_t j) {
  return static_cast<double>(overlap(c, i, j)) /
         static_cast<double>(c.eq9 == Eq9::fractional ? c.l : c.d);
}
std::int64_t right_group(const AttentionConfig&, std::int64_t g, std::int64_t) {
  return g;
}

enum class Heads { summed, averaged, first };

// How p_grp is made; right where nothing else is said.
struct ScoreLaw {
  bool (*sees)(const AttentionConfig&, std::int64_t t, std::int64_t i) = right_sight;
  // Logit of what is not seen.
  double hidden_logit = kMinusInfinity;
  // What is not seen has its logit all the same, and is left out after the softmax.
  bool masked_late = false;
  // Divisor of the logits.
  double (*root)(const AttentionConfig&) = right_root;
  // M[i,j]
  double (*weight)(const AttentionConfig&, std::int64_t i, std::int64_t j) = right_weight;
  // Whose keys head i of group g meets.
  std::int64_t (*group)(const AttentionConfig&, std::int64_t g, std::int64_t i) = right_group;
  Heads heads = Heads::summed;
  bool rotated_queries = true;
};

class Scores {
 public:
  Scores(const StageInputs& in, const ScoreLaw& law)
      : in_(in),
        c_(in.config),
        law_(law),
        q_(law.rotated_queries ? in.forward.projections.q_BGhRD : unrotated_queries(in)),
        k_(right_tensor(in, Stage::k_cmp)),
        tokens_(k_.shape[2]),
        blocks_(in.config.block_count(in.sizes().length)) {
    for (std::int64_t i = 0; i < tokens_; ++i) {
      for (std::int64_t j = 0; j < blocks_; ++j) {
        map_CN_.push_back(law.weight(c_, i, j));
      }
    }
  }

  Tensor run() const {
    const Sizes& n = in_.sizes();
    Tensor scores = zeros({n.batch, n.groups, n.rows, blocks_});
    parallel_for(n.batch_groups() * n.rows,
                 kGrainRows,
                 in_.threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t place = begin; place < end; ++place) {
                     add_row(place / n.rows, place % n.rows, scores.data.data() + place * blocks_);
                   }
                 });
    return scores;
  }

 private:
  void add_row(std::int64_t group, std::int64_t row, double* scores_N) const {
    const Sizes& n = in_.sizes();
    const std::int64_t heads = law_.heads == Heads::first ? 1 : n.heads;
    const double share = law_.heads == Heads::averaged ? 1 / static_cast<double>(heads) : 1;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::vector<double> p_C = probabilities(group, head, row);
      for (std::int64_t i = 0; i < tokens_; ++i) {
        for (std::int64_t j = 0; p_C[i] != 0 && j < blocks_; ++j) {
          scores_N[j] += share * p_C[i] * map_CN_[i * blocks_ + j];
        }
      }
    }
  }

  [[nodiscard]] std::vector<double> probabilities(std::int64_t group,
                                                  std::int64_t head,
                                                  std::int64_t row) const {
    const std::int64_t t = in_.forward.projections.rows[row];
    std::vector<double> p_C;
    double largest = kMinusInfinity;
    for (std::int64_t i = 0; i < tokens_; ++i) {
      const bool counts = law_.masked_late || law_.sees(c_, t, i);
      p_C.push_back(counts ? logit(group, head, row, i) : law_.hidden_logit);
      largest = std::max(largest, p_C.back());
    }
    double sum = 0;
    for (double& p : p_C) {
      p = largest == kMinusInfinity ? 0 : std::exp(p - largest);
      sum += p;
    }
    for (std::int64_t i = 0; i < tokens_; ++i) {
      const bool left_out = law_.masked_late && !law_.sees(c_, t, i);
      p_C[i] = left_out || sum == 0 ? 0 : p_C[i] / sum;
    }
    return p_C;
  }

  [[nodiscard]] double logit(std::int64_t group,
                             std::int64_t head,
                             std::int64_t row,
                             std::int64_t i) const {
    const Sizes& n = in_.sizes();
    const std::int64_t g = law_.group(c_, group % n.groups, head);
    const double* const q = q_.data.data() + ((group * n.heads + head) * n.rows + row) * c_.d_k;
    const double* const k =
        k_.data.data() + ((group / n.groups * n.groups + g) * tokens_ + i) * c_.d_k;
    double sum = 0;
    for (std::int64_t d = 0; d < c_.d_k; ++d) {
      sum += q[d] * k[d];
    }
    return sum / law_.root(c_);
  }

  const StageInputs& in_;
  const AttentionConfig& c_;
  const ScoreLaw& law_;
  Tensor q_;
  const Tensor& k_;
  std::int64_t tokens_;
  std::int64_t blocks_;
  std::vector<double> map_CN_;
};

std::vector<std::int64_t> select_usual(const AttentionConfig& config,
                                       std::int64_t t,
                                       std::span<const double> scores) {
  return select_blocks(config, t, scores).blocks;
}

// A law that changes no order of scores.
StageRule of_scores_only(StageRule rule) {
  rule.law.stages = {Stage::p_grp};
  return rule;
}

// A wrong law of the scores; for stage blocks the right choice from them.
StageRule score_rule(std::string_view name,
                     std::string_view about,
                     const ScoreLaw& law,
                     std::function<bool(const StageInputs&, Stage)> makes_sense = {}) {
  return {{name, {Stage::p_grp, Stage::blocks}, about},
          [law](const StageInputs& in, Stage stage) {
            Tensor scores = Scores(in, law).run();
            return stage == Stage::p_grp ? scores : chosen_blocks(in, scores, select_usual);
          },
          std::move(makes_sense)};
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

bool has_groups(const StageInputs& in, Stage) {
  return in.config.n_kv_groups > 1;
}
bool has_heads(const StageInputs& in, Stage) {
  return in.config.heads_per_group() > 1;
}
bool widths_differ(const StageInputs& in, Stage) {
  return in.config.d_k != in.config.d_v;
}

std::vector<StageRule> map_rules() {
  using Config = AttentionConfig;
  using Index = std::int64_t;
  return {
      score_rule("map_shifted_right",
                 "M[i, j-1] in place of M[i, j]",
                 {.weight = [](const Config& c,
                               Index i,
                               Index j) { return j == 0 ? 0.0 : right_weight(c, i, j - 1); }}),
      score_rule(
          "map_shifted_left",
          "M[i, j+1] in place of M[i, j]",
          {.weight = [](const Config& c, Index i, Index j) { return right_weight(c, i, j + 1); }}),
      score_rule(
          "map_negated",
          "-M in place of M",
          {.weight = [](const Config& c, Index i, Index j) { return -right_weight(c, i, j); }}),
      score_rule(
          "map_as_printed",
          "equation 9 as the paper prints it: token l_sel/d*j - m - n",
          {.weight =
               [](const Config& c, Index i, Index j) { return equation_nine(c, i, j, -1, -1); }}),
      score_rule(
          "map_plus_n",
          "equation 9 with token l_sel/d*j + m + n",
          {.weight =
               [](const Config& c, Index i, Index j) { return equation_nine(c, i, j, 1, 1); }}),
      score_rule("map_of_first_token",
                 "each compressed token counts for the block of its first token, wholly",
                 {.weight = [](const Config& c,
                               Index i,
                               Index j) { return i * c.d / c.l_sel == j ? 1.0 : 0.0; }}),
      of_scores_only(
          score_rule("map_other_unit",
                     "overlap/d for fractional, overlap/l for overlap",
                     {.weight =
                          [](const Config& c, Index i, Index j) {
                            Config other = c;
                            other.eq9 = c.eq9 == Eq9::fractional ? Eq9::overlap : Eq9::fractional;
                            return right_weight(other, i, j);
                          }},
                     [](const StageInputs& in, Stage) { return in.config.l != in.config.d; })),
      of_scores_only(score_rule(
          "map_over_block",
          "overlap/l_sel: the share of the block in place of that of the token",
          {.weight =
               [](const Config& c, Index i, Index j) {
                 return static_cast<double>(overlap(c, i, j)) / static_cast<double>(c.l_sel);
               }},
          [](const StageInputs& in, Stage) {
            return in.config.l_sel !=
                   (in.config.eq9 == Eq9::fractional ? in.config.l : in.config.d);
          }))};
}

std::vector<StageRule> probability_rules() {
  using Config = AttentionConfig;
  using Index = std::int64_t;
  const auto see_all = [](const Config&, Index, Index) { return true; };
  return {
      score_rule("no_mask", "every compressed token is seen, future ones too", {.sees = see_all}),
      score_rule("normalised_over_all",
                 "softmax over every compressed token, masked afterwards",
                 {.masked_late = true}),
      of_scores_only(score_rule(
          "finite_sentinel", "what is not seen has the logit -10000", {.hidden_logit = kSentinel})),
      score_rule("seen_one_late",
                 "compressed tokens with i*d + l - 1 < t",
                 {.sees = [](const Config& c, Index t, Index i) { return i * c.d + c.l - 1 < t; }}),
      score_rule("seen_when_begun",
                 "compressed tokens with i*d <= t",
                 {.sees = [](const Config& c, Index t, Index i) { return i * c.d <= t; }},
                 [](const StageInputs& in, Stage) { return in.config.l > 1; }),
      score_rule("scale_missing", "logits q.k", {.root = [](const Config&) { return 1.0; }}),
      score_rule("scale_twice",
                 "logits q.k / d_k",
                 {.root = [](const Config& c) { return static_cast<double>(c.d_k); }}),
      score_rule("scale_of_values",
                 "logits q.k / sqrt(d_v)",
                 {.root = [](const Config& c) { return std::sqrt(static_cast<double>(c.d_v)); }},
                 widths_differ),
      score_rule("next_groups_keys",
                 "keys of group g + 1, of the first for the last",
                 {.group = [](const Config& c, Index g, Index) { return (g + 1) % c.n_kv_groups; }},
                 has_groups),
      score_rule("heads_interleaved",
                 "keys of group hq mod G",
                 {.group = [](const Config& c,
                              Index g,
                              Index i) { return (g * c.heads_per_group() + i) % c.n_kv_groups; }},
                 [](const StageInputs& in, Stage stage) {
                   return has_groups(in, stage) && has_heads(in, stage);
                 }),
      of_scores_only(score_rule(
          "heads_averaged", "mean over the heads", {.heads = Heads::averaged}, has_heads)),
      score_rule("first_head_only", "the first head's alone", {.heads = Heads::first}, has_heads),
      score_rule("queries_unrotated", "queries not rotated", {.rotated_queries = false})};
}

}  // namespace

std::vector<StageRule> score_rules() {
  std::vector<StageRule> rules;
  for (const auto part : {map_rules, probability_rules}) {
    std::vector<StageRule> some = part();
    std::move(some.begin(), some.end(), std::back_inserter(rules));
  }
  return rules;
}

}  // namespace oracles
