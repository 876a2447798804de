// The bound on block scores against scores that really are computed in float32.
#include "oracles/attention/score_bound.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "oracles/attention/attention.h"
#include "oracles/attention/selection.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

using FloatRow = std::vector<float>;

enum class Order { forward, backward };

// A sum of n terms from the left or from the right.
template <typename Term>
float float_sum(std::int64_t n, Order order, Term term) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += term(order == Order::forward ? i : n - 1 - i);
  }
  return sum;
}

// Queries and compressed keys that float32 holds exactly: the inputs are the same for both.
ScoreInputs recorded(const RandomLayer& layer) {
  const AttentionResult r = attention(layer.config, layer.weights, layer.x);
  ScoreInputs in{r.q, r.k_cmp, layer.length(), r.rows};
  for (Tensor* tensor : {&in.q, &in.k_cmp}) {
    for (double& value : tensor->data) {
      value = static_cast<float>(value);
    }
  }
  return in;
}

// p_grp the naive way, every operation in float32.
class FloatScores {
 public:
  FloatScores(const AttentionConfig& config, const ScoreInputs& in, Order order)
      : c_(config), in_(in), order_(order) {}

  // [B,G,S,N]
  Tensor scores() const {
    const std::int64_t groups = in_.q.shape[0] * c_.n_kv_groups;
    Tensor result = zeros({in_.q.shape[0], c_.n_kv_groups, in_.length, c_.block_count(in_.length)});
    for (std::int64_t group = 0; group < groups; ++group) {
      add_group(group, result);
    }
    return result;
  }

 private:
  FloatRow vector(const Tensor& from, std::int64_t number) const {
    const auto begin = from.data.begin() + number * c_.d_k;
    return {begin, begin + c_.d_k};
  }

  FloatRow probabilities(const FloatRow& q,
                         const std::vector<FloatRow>& keys,
                         std::int64_t visible) const {
    FloatRow p;
    for (std::int64_t i = 0; i < visible; ++i) {
      p.push_back(float_sum(c_.d_k, order_, [&](std::int64_t k) { return q[k] * keys[i][k]; }) /
                  std::sqrt(static_cast<float>(c_.d_k)));
    }
    const float largest = p.empty() ? 0 : *std::max_element(p.begin(), p.end());
    for (float& value : p) {
      value = std::exp(value - largest);
    }
    const float sum = float_sum(visible, order_, [&](std::int64_t i) { return p[i]; });
    for (float& value : p) {
      value /= sum;
    }
    return p;
  }

  float map(std::int64_t i, std::int64_t j) const {
    float shared = 0;
    for (std::int64_t u = i * c_.d; u < i * c_.d + c_.l; ++u) {
      shared += u / c_.l_sel == j ? 1.0f : 0.0f;
    }
    return shared / static_cast<float>(c_.eq9 == Eq9::fractional ? c_.l : c_.d);
  }

  void add_group(std::int64_t group, Tensor& result) const {
    std::vector<FloatRow> keys;
    const std::int64_t count = c_.compressed_count(in_.length);
    for (std::int64_t i = 0; i < count; ++i) {
      keys.push_back(vector(in_.k_cmp, group * count + i));
    }
    const std::int64_t blocks = result.shape[3];
    for (std::int64_t t = 0; t < in_.length; ++t) {
      const std::int64_t place = group * in_.length + t;
      FloatRow row(static_cast<std::size_t>(blocks), 0.0f);
      for (std::int64_t head = 0; head < c_.heads_per_group(); ++head) {
        const FloatRow q = vector(in_.q, (group * c_.heads_per_group() + head) * in_.length + t);
        const std::int64_t visible = t + 1 < c_.l ? 0 : (t + 1 - c_.l) / c_.d + 1;
        const FloatRow p = probabilities(q, keys, visible);
        for (std::int64_t j = 0; j < blocks; ++j) {
          row[j] += float_sum(visible, order_, [&](std::int64_t i) { return p[i] * map(i, j); });
        }
      }
      std::copy(row.begin(), row.end(), result.data.begin() + place * blocks);
    }
  }

  const AttentionConfig& c_;
  const ScoreInputs& in_;
  Order order_;
};

RandomLayer drawn(std::uint64_t seed) {
  Random random(seed);
  AttentionConfig config = random_config(random);
  config.dim = random.from(1, 40);
  config.d_k = 2 * random.from(1, 8);
  config.eq9 = random.from(0, 1) != 0 ? Eq9::overlap : Eq9::fractional;
  const std::int64_t length = random.from(config.l, config.l + 60);
  RandomLayer layer(random, config, 1, length);
  const double sharpness = random.from(0, 3) == 0 ? 5 : 1;
  for (double& value : layer.weights.at("W_Q.weight").data) {
    value *= sharpness;
  }
  return layer;
}

// Largest share of its bound that an error takes; infinite where one is above its bound.
double largest_share(const Tensor& found, const Tensor& wanted, const Tensor& bound) {
  double largest = 0;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    const double error = std::abs(found.data[i] - wanted.data[i]);
    EXPECT_LE(error, bound.data[i]) << i;
    largest = std::max(largest, error > 0 ? error / bound.data[i] : 0);
  }
  return largest;
}

void record(::testing::Test& test, const std::string& name, double value) {
  std::ostringstream text;
  text << value;
  test.RecordProperty(name, text.str());
}

class ScoreBound : public ::testing::TestWithParam<int> {};

TEST_P(ScoreBound, IsNeverExceededByFloat32) {
  const RandomLayer layer = drawn(static_cast<std::uint64_t>(GetParam()));
  const ScoreInputs in = recorded(layer);
  const BoundedScores wanted = scores_from(layer.config, in, Arithmetic::float32());
  for (const Order order : {Order::forward, Order::backward}) {
    const Tensor floats = FloatScores(layer.config, in, order).scores();
    ASSERT_EQ(floats.shape, wanted.p_grp.shape);
    const double share = largest_share(floats, wanted.p_grp, wanted.bound);
    record(*this, order == Order::forward ? "forward" : "backward", share);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, ScoreBound, ::testing::Range(0, 60));

// The layer whose bounds are judged below: of the shape that real ones have, made small.
RandomLayer typical() {
  Random random(7);
  AttentionConfig config;
  config.dim = 64;
  config.n_heads = 4;
  config.n_kv_groups = 1;
  config.d_k = config.d_v = 16;
  config.l = 8;
  config.d = 4;
  config.l_sel = 16;
  config.n_sel = 4;
  config.w = 16;
  RandomLayer layer(random, config, 1, 160);
  for (auto& [name, weight] : layer.weights) {
    for (double& value : weight.data) {
      value /= 6;  // a spread of 1 / sqrt(dim) for every projection
    }
  }
  return layer;
}

// A bound a thousand times too large would explain any choice. The errors of sums that go at random
// reach about 1 / sqrt(n) of a bound for the worst case, n = 16 here.
TEST(ScoreBoundWidth, IsWithinAFactorOfWhatHappens) {
  const RandomLayer layer = typical();
  const ScoreInputs in = recorded(layer);
  const BoundedScores wanted = scores_from(layer.config, in, Arithmetic::float32());
  const Tensor floats = FloatScores(layer.config, in, Order::forward).scores();
  const double share = largest_share(floats, wanted.p_grp, wanted.bound);
  RecordProperty("share", std::to_string(share));
  EXPECT_GT(share, 1e-3);
}

TEST(ScoreBoundWidth, ExplainsFewWrongChoicesInFloat32) {
  const RandomLayer layer = typical();
  const BoundedScores found = scores_from(layer.config, recorded(layer), Arithmetic::float32());
  const std::int64_t blocks = found.bound.shape[3];
  int undecided = 0;
  for (std::int64_t t = 0; t < layer.length(); ++t) {
    const std::span<const double> scores(found.p_grp.data.data() + t * blocks,
                                         static_cast<std::size_t>(blocks));
    const auto bounds = found.bound.data.begin() + t * blocks;
    const double margin = select_blocks(layer.config, t, scores).margin;
    undecided += margin <= 2 * *std::max_element(bounds, bounds + blocks) ? 1 : 0;
  }
  RecordProperty("undecided_rows", undecided);
  EXPECT_LE(undecided, 1);  // of 160
}

// Every choice that float32 makes is the oracle's or explained.
TEST(ScoreBoundWidth, ExplainsEveryChoiceOfFloat32) {
  int tied = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const RandomLayer layer = drawn(seed);
    const ScoreInputs in = recorded(layer);
    const auto [scores, bound] = scores_from(layer.config, in, Arithmetic::float32());
    const Tensor floats = FloatScores(layer.config, in, Order::forward).scores();
    const auto blocks = static_cast<std::size_t>(scores.shape[3]);
    for (std::size_t place = 0; place < scores.data.size() / blocks; ++place) {
      const auto row = [&](const Tensor& of) {
        return std::span<const double>(of.data.data() + place * blocks, blocks);
      };
      const std::int64_t t = static_cast<std::int64_t>(place) % layer.length();
      std::vector<std::int64_t> taken = select_blocks(layer.config, t, row(floats)).blocks;
      taken.resize(static_cast<std::size_t>(layer.config.n_sel), -1);
      const Comparison found = compare_selection(layer.config, t, row(scores), row(bound), taken);
      ASSERT_NE(found.agreement, Agreement::wrong) << seed << " row " << place;
      tied += found.agreement == Agreement::tied ? 1 : 0;
    }
  }
  RecordProperty("tied", tied);
}

double largest(const Tensor& tensor) {
  return *std::max_element(tensor.data.begin(), tensor.data.end());
}

TEST(ScoreBoundWidth, FollowsTheArithmetic) {
  const RandomLayer layer = typical();
  const ScoreInputs in = recorded(layer);
  const auto width = [&](const Arithmetic& a) {
    return largest(scores_from(layer.config, in, a).bound);
  };
  const double in_float64 = width(Arithmetic::float64());
  const double in_float32 = width(Arithmetic::float32());
  EXPECT_LT(in_float64, 1e-11);
  // The oracle's own rounding is part of both, half of the first.
  EXPECT_NEAR(in_float32 / in_float64 / std::ldexp(1, 28), 1, 0.1);
  EXPECT_GT(width(Arithmetic::float16()), 10 * in_float32);
  EXPECT_GT(width(Arithmetic::bfloat16()), width(Arithmetic::float16()));
}

TEST(ScoreBoundWidth, StaysANumberWhereNothingIsKnown) {
  const RandomLayer layer = typical();
  const Tensor bound = scores_from(layer.config, recorded(layer), {0.5, 0.5, 1e-38}).bound;
  for (const double value : bound.data) {
    ASSERT_TRUE(value >= 0);  // no NaN
  }
  EXPECT_GT(largest(bound), 1e6);
}

// Inputs that are moved by as much as they may be off give scores within the bound, and far above
// what rounding alone explains.
TEST(ScoresFrom, ErrorsOfTheInputsArePartOfTheBound) {
  const RandomLayer layer = typical();
  ScoreInputs in = recorded(layer);
  for (const auto& [q_error, k_error] :
       {std::pair{1e-3, 0.0}, std::pair{0.0, 1e-3}, std::pair{1e-3, 1e-3}}) {
    ScoreInputs moved = in;
    Random random(3);
    for (const auto& [tensor, error] :
         {std::pair{&moved.q, q_error}, std::pair{&moved.k_cmp, k_error}}) {
      for (double& value : tensor->data) {
        value += random.normal() > 0 ? error : -error;
      }
    }
    in.q_error = q_error;
    in.k_error = k_error;
    const BoundedScores found = scores_from(layer.config, in, Arithmetic::float64());
    const Tensor other = scores_from(layer.config, moved, Arithmetic::float64()).p_grp;
    const double share = largest_share(other, found.p_grp, found.bound);
    EXPECT_GT(share, 1e-3);
    EXPECT_GT(largest(found.bound), 1e-6);
  }
}

TEST(ScoresFrom, RefusesWhatDoesNotFit) {
  const RandomLayer layer = typical();
  const AttentionResult r = attention(layer.config, layer.weights, layer.x);
  const auto refused = [&](const ScoreInputs& in) {
    EXPECT_THROW(scores_from(layer.config, in, Arithmetic::float32()), std::invalid_argument);
  };
  refused({r.q, r.k_cmp, 0, r.rows});
  refused({r.q, r.k_cmp, layer.length(), {}});
  refused({r.q, r.k_cmp, layer.length(), {0}});
  refused({r.q, r.k_cmp, layer.length() + 4, r.rows});
  refused({r.k_cmp, r.k_cmp, layer.length(), r.rows});
  ScoreInputs in{r.q, r.k_cmp, layer.length(), r.rows};
  in.q.data[5] = NAN;
  refused(in);
}

// The plainest layer: one head, windows and blocks of one token.
AttentionConfig one_head(std::int64_t dim, std::int64_t d_k) {
  AttentionConfig config;
  config.dim = dim;
  config.n_heads = config.n_kv_groups = 1;
  config.d_k = d_k;
  config.d_v = 1;
  config.l = config.d = config.l_sel = 1;
  config.n_sel = 3;
  config.w = 1;
  return config;
}

// 1 + 63 * 2^-25 in float32 loses every small term: logits of 100 and 100 (1 + 63 * 2^-25) are
// equal, and so are their probabilities. A bound that forgot the sum would be below that.
TEST(Tightness, SumsThatLoseEveryTermComeCloseToTheBoundOfALogit) {
  const AttentionConfig config = one_head(1, 64);
  ScoreInputs in{filled({1, 1, 1, 1, 64}, 100 * std::ldexp(1, -25)), zeros({1, 1, 2, 64}), 2, {1}};
  in.q.data[0] = 100;
  std::fill(in.k_cmp.data.begin(), in.k_cmp.data.begin() + 64, 1.0);
  in.k_cmp.data[64] = 1;
  const BoundedScores found = scores_from(config, in, Arithmetic::float32());
  const double error = std::abs(0.5 - found.p_grp.data[0]);
  EXPECT_GT(error, 5e-6);
  EXPECT_LT(error, found.bound.data[0]);
  EXPECT_GT(error, 0.05 * found.bound.data[0]);
}

// One key far above 1023 others, each of which float32 loses beside it in the softmax's sum.
TEST(Tightness, SumsThatLoseEveryTermComeCloseToTheBoundOfASoftmax) {
  const AttentionConfig config = one_head(1, 2);
  const std::int64_t length = 1024;
  const double lost = -24.1 * std::log(2.0) * std::sqrt(2.0);
  ScoreInputs in{{{1, 1, 1, 1, 2}, {1, 0}}, filled({1, 1, length, 2}, lost), length, {length - 1}};
  in.k_cmp.data[0] = 0;
  float sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    sum += static_cast<float>(std::exp(in.k_cmp.data[2 * i] / std::sqrt(2.0)));
  }
  ASSERT_EQ(sum, 1);
  const BoundedScores found = scores_from(config, in, Arithmetic::float32());
  const double error = 1 - found.p_grp.data[0];
  EXPECT_LT(error, found.bound.data[0]);
  EXPECT_GT(error, 0.5 * found.bound.data[0]);
}

// Logits 100 + 62 * 100 * 2^-25 - 100, which float32 takes for 0, and 0 without any error: the
// second key's probability moves because the first one's does.
TEST(Tightness, AnErrorOfOneKeyMovesTheProbabilityOfAnother) {
  const AttentionConfig config = one_head(1, 64);
  ScoreInputs in{filled({1, 1, 1, 1, 64}, 100 * std::ldexp(1, -25)), zeros({1, 1, 2, 64}), 2, {1}};
  in.q.data[0] = 100;
  in.q.data[63] = -100;
  std::fill(in.k_cmp.data.begin(), in.k_cmp.data.begin() + 64, 1.0);
  const BoundedScores found = scores_from(config, in, Arithmetic::float32());
  const double error = std::abs(0.5 - found.p_grp.data[1]);
  EXPECT_GT(error, 5e-6);
  EXPECT_LT(error, found.bound.data[1]);
  EXPECT_GT(error, 0.05 * found.bound.data[1]);
}

// The same where the error is large: logits 5, taken for 0, and 0. What is below a probability says
// little about what is above it there.
TEST(Tightness, ALargeErrorOfOneKeyMovesTheProbabilityOfAnotherFarUp) {
  const AttentionConfig config = one_head(1, 64);
  const double size = 5 * 8 * std::ldexp(1, 25) / 62;
  ScoreInputs in{filled({1, 1, 1, 1, 64}, size * std::ldexp(1, -25)), zeros({1, 1, 2, 64}), 2, {1}};
  in.q.data[0] = size;
  in.q.data[63] = -size;
  std::fill(in.k_cmp.data.begin(), in.k_cmp.data.begin() + 64, 1.0);
  const BoundedScores found = scores_from(config, in, Arithmetic::float32());
  EXPECT_NEAR(found.p_grp.data[1], 1 / (1 + std::exp(5.0)), 1e-6);
  EXPECT_LT(0.5 - found.p_grp.data[1], found.bound.data[1]);
  EXPECT_GT(0.5 - found.p_grp.data[1], 0.05 * found.bound.data[1]);
}

// A third, kept in bfloat16.
TEST(Tightness, ProbabilitiesAreKeptInTheStoredArithmetic) {
  const ScoreInputs in{zeros({1, 1, 1, 3, 2}), zeros({1, 1, 3, 2}), 3, {0, 1, 2}};
  const BoundedScores found = scores_from(one_head(1, 2), in, Arithmetic::bfloat16());
  const double error = 0.333984375 - 1.0 / 3;  // 171 / 512 is the nearest
  EXPECT_DOUBLE_EQ(found.p_grp.data[8], 1.0 / 3);
  EXPECT_LT(error, found.bound.data[8]);
  EXPECT_GT(error, 0.05 * found.bound.data[8]);
}

TEST(OwnRounding, IsAddedToEveryUnit) {
  const Arithmetic a = with_own_rounding(Arithmetic::float64());
  EXPECT_EQ(a.stored, std::ldexp(1, -52));
  EXPECT_EQ(a.summed, std::ldexp(1, -52));
}

TEST(Gamma, BoundsTheRoundingsOfASum) {
  EXPECT_EQ(gamma(0, 0.1), 0);
  EXPECT_DOUBLE_EQ(gamma(2, 0.25), 1);
  EXPECT_EQ(gamma(4, 0.25), 1e30);
}

}  // namespace
}  // namespace oracles::testing
