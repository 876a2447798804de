// The bound on block scores against scores that really are computed in float32.
#include "oracles/attention/score_bound.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "oracles/attention/bounded.h"
#include "oracles/attention/selection.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

using Floats = std::vector<float>;

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

// p_grp the naive way, every operation in float32; phi avg.
class FloatScores {
 public:
  FloatScores(const RandomLayer& layer, Order order)
      : layer_(layer), c_(layer.config), order_(order) {}

  // [B,G,S,N]
  Tensor scores() const {
    Tensor result = zeros(
        {layer_.x.shape[0], c_.n_kv_groups, layer_.length(), c_.block_count(layer_.length())});
    for (std::int64_t b = 0; b < layer_.x.shape[0]; ++b) {
      for (std::int64_t g = 0; g < c_.n_kv_groups; ++g) {
        add_group(b, g, result);
      }
    }
    return result;
  }

 private:
  Floats rotated(const std::string& name, std::int64_t b, std::int64_t head, std::int64_t t) const {
    const Tensor& weight = layer_.weights.at(name);
    Floats z;
    for (std::int64_t i = 0; i < c_.d_k; ++i) {
      z.push_back(float_sum(c_.dim, order_, [&](std::int64_t k) {
        return static_cast<float>(weight.data[(head * c_.d_k + i) * c_.dim + k]) *
               static_cast<float>(layer_.x.data[(b * layer_.length() + t) * c_.dim + k]);
      }));
    }
    for (std::int64_t i = 0; i < c_.d_k; i += 2) {
      const float frequency = 1 / std::pow(static_cast<float>(c_.rope_base),
                                           static_cast<float>(i) / static_cast<float>(c_.d_k));
      const float angle = static_cast<float>(t) / static_cast<float>(c_.rope_scale) * frequency;
      const float even = z[i];
      z[i] = even * std::cos(angle) - z[i + 1] * std::sin(angle);
      z[i + 1] = even * std::sin(angle) + z[i + 1] * std::cos(angle);
    }
    return z;
  }

  std::vector<Floats> compressed_keys(std::int64_t b, std::int64_t g) const {
    std::vector<Floats> raw;
    for (std::int64_t t = 0; t < layer_.length(); ++t) {
      raw.push_back(rotated("W_K_cmp.weight", b, g, t));
    }
    std::vector<Floats> keys;
    for (std::int64_t i = 0; i < c_.compressed_count(layer_.length()); ++i) {
      Floats key;
      for (std::int64_t k = 0; k < c_.d_k; ++k) {
        key.push_back(
            float_sum(c_.l, order_, [&](std::int64_t j) { return raw[i * c_.d + j][k]; }) /
            static_cast<float>(c_.l));
      }
      keys.push_back(key);
    }
    return keys;
  }

  Floats probabilities(const Floats& q,
                       const std::vector<Floats>& keys,
                       std::int64_t visible) const {
    Floats p;
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

  void add_group(std::int64_t b, std::int64_t g, Tensor& result) const {
    const std::vector<Floats> keys = compressed_keys(b, g);
    const std::int64_t blocks = result.shape[3];
    for (std::int64_t t = 0; t < layer_.length(); ++t) {
      const std::int64_t place = (b * c_.n_kv_groups + g) * layer_.length() + t;
      Floats row(static_cast<std::size_t>(blocks), 0.0f);
      for (std::int64_t head = 0; head < c_.heads_per_group(); ++head) {
        const Floats q = rotated("W_Q.weight", b, g * c_.heads_per_group() + head, t);
        const std::int64_t visible = t + 1 < c_.l ? 0 : (t + 1 - c_.l) / c_.d + 1;
        const Floats p = probabilities(q, keys, visible);
        for (std::int64_t j = 0; j < blocks; ++j) {
          row[j] += float_sum(visible, order_, [&](std::int64_t i) { return p[i] * map(i, j); });
        }
      }
      std::copy(row.begin(), row.end(), result.data.begin() + place * blocks);
    }
  }

  const RandomLayer& layer_;
  const AttentionConfig& c_;
  Order order_;
};

// Weights and x that float32 holds exactly: the inputs are the same for both.
RandomLayer rounded(RandomLayer layer) {
  for (auto& [name, weight] : layer.weights) {
    for (double& value : weight.data) {
      value = static_cast<float>(value);
    }
  }
  for (double& value : layer.x.data) {
    value = static_cast<float>(value);
  }
  return layer;
}

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
  return rounded(layer);
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
  const Tensor wanted = attention(layer.config, layer.weights, layer.x).p_grp;
  const Tensor bound = score_bound(layer.config, layer.weights, layer.x, Arithmetic::float32());
  ASSERT_EQ(bound.shape, wanted.shape);
  for (const Order order : {Order::forward, Order::backward}) {
    const double share = largest_share(FloatScores(layer, order).scores(), wanted, bound);
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
  return rounded(layer);
}

// A bound a thousand times too large would explain any choice. The errors of sums that go at random
// reach about 1 / sqrt(n) of a bound for the worst case, n = 64 here, step after step.
TEST(ScoreBoundWidth, IsWithinAFactorOfWhatHappens) {
  const RandomLayer layer = typical();
  const Tensor wanted = attention(layer.config, layer.weights, layer.x).p_grp;
  const Tensor bound = score_bound(layer.config, layer.weights, layer.x, Arithmetic::float32());
  const double share = largest_share(FloatScores(layer, Order::forward).scores(), wanted, bound);
  RecordProperty("share", std::to_string(share));
  EXPECT_GT(share, 3e-4);
}

TEST(ScoreBoundWidth, ExplainsFewWrongChoicesInFloat32) {
  const RandomLayer layer = typical();
  const AttentionResult found = attention(layer.config, layer.weights, layer.x);
  const Tensor bound = score_bound(layer.config, layer.weights, layer.x, Arithmetic::float32());
  const std::int64_t blocks = bound.shape[3];
  int undecided = 0;
  for (std::int64_t t = 0; t < layer.length(); ++t) {
    const double widest =
        *std::max_element(bound.data.begin() + t * blocks, bound.data.begin() + (t + 1) * blocks);
    undecided += found.margin.data[t] <= 2 * widest ? 1 : 0;
  }
  RecordProperty("undecided_rows", undecided);
  EXPECT_LE(undecided, 8);  // of 160
}

// Every choice that float32 makes is the oracle's or explained.
TEST(ScoreBoundWidth, ExplainsEveryChoiceOfFloat32) {
  int tied = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const RandomLayer layer = drawn(seed);
    const Tensor scores = attention(layer.config, layer.weights, layer.x).p_grp;
    const Tensor bound = score_bound(layer.config, layer.weights, layer.x, Arithmetic::float32());
    const Tensor floats = FloatScores(layer, Order::forward).scores();
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
  const auto width = [&](const Arithmetic& a) {
    return largest(score_bound(layer.config, layer.weights, layer.x, a));
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
  const Tensor bound = score_bound(layer.config, layer.weights, layer.x, {0.5, 0.5, 0.5, 1e-38});
  for (const double value : bound.data) {
    ASSERT_TRUE(value >= 0);  // no NaN
  }
  EXPECT_GT(largest(bound), 1e6);
}

TEST(ScoreBoundVariants, AreBoundsForEveryPhi) {
  for (const Phi phi : {Phi::avg, Phi::conv, Phi::mlp}) {
    Random random(9);
    AttentionConfig config = typical().config;
    config.phi = phi;
    const RandomLayer layer(random, config, 1, 60);
    const Tensor bound = score_bound(config, layer.weights, layer.x, Arithmetic::float64(), {59});
    EXPECT_EQ(bound.shape, (Shape{1, 1, 1, 4}));
    EXPECT_GT(largest(bound), 0);
    EXPECT_LT(largest(bound), 1e-7);
  }
}

// Weights moved by half a unit in the last place of float32 move compressed keys by less than the
// bound for keys computed with that roundoff: for the mlp, whose steps nothing else here computes.
TEST(ScoreBoundVariants, CompressedKeysOfTheMlpMoveLessThanTheirBound) {
  Random random(10);
  AttentionConfig config = typical().config;
  config.phi = Phi::mlp;
  const RandomLayer layer(random, config, 1, 60);
  const Bounded k =
      bounded_compressed_keys({config, layer.weights, 1}, layer.x, Arithmetic::float32());
  Weights moved = layer.weights;
  for (auto& [name, weight] : moved) {
    for (double& value : weight.data) {
      value *= 1 + std::ldexp(random.normal() > 0 ? 1 : -1, -24);
    }
  }
  const Tensor other = attention(config, moved, layer.x).k_cmp;
  EXPECT_EQ(k.value.data, attention(config, layer.weights, layer.x).k_cmp.data);
  EXPECT_LT(largest_share(other, k.value, k.error), 1);
}

TEST(ScoresFrom, RecordedQueriesAndKeysGiveTheSameScores) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const RandomLayer layer = random_layer(seed);
    const AttentionResult r = attention(layer.config, layer.weights, layer.x);
    const BoundedScores found =
        scores_from(layer.config, {r.q, r.k_cmp, layer.length(), r.rows}, Arithmetic::float32());
    const Tensor whole = score_bound(layer.config, layer.weights, layer.x, Arithmetic::float32());
    for (std::size_t i = 0; i < r.p_grp.data.size(); ++i) {
      ASSERT_NEAR(found.p_grp.data[i], r.p_grp.data[i], 1e-13);
      ASSERT_LE(found.bound.data[i], whole.data[i]);
    }
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

// One projection of the plainest kind: one head, no rotation at t = 0.
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

// 1 + 63 * 2^-25 in float32 loses every small term: half of what gamma_64 allows. A bound that
// forgot the sum would be below it.
TEST(Tightness, SumsThatLoseEveryTermComeCloseToTheBoundOfAProjection) {
  const AttentionConfig config = one_head(64, 2);
  Random random(1);
  RandomLayer layer(random, config, 1, 1);
  for (double& value : layer.weights["W_Q.weight"].data) {
    value = 1;
  }
  std::fill(layer.x.data.begin(), layer.x.data.end(), std::ldexp(1, -25));
  layer.x.data[0] = 1;
  const Bounded q =
      bounded_queries({config, layer.weights, 1}, layer.x, {0}, Arithmetic::float32());
  float sum = 0;
  for (const double value : layer.x.data) {
    sum += static_cast<float>(value);
  }
  const double error = std::abs(sum - q.value.data[0]);
  EXPECT_EQ(error, 63 * std::ldexp(1, -25));
  EXPECT_LT(error, q.error.data[0]);
  EXPECT_GT(error, 0.3 * q.error.data[0]);
}

// The same for logits: 100 and 100 (1 + 63 * 2^-25) are equal in float32, so are their
// probabilities.
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

// Queries (1, 0), turned in float32 at positions up to 5000.
TEST(Tightness, RotationInFloat32StaysWithinItsBound) {
  AttentionConfig config = one_head(1, 16);
  config.rope_scale = 3;
  Random random(1);
  RandomLayer layer(random, config, 1, 5000);
  std::fill(layer.x.data.begin(), layer.x.data.end(), 1.0);
  for (std::size_t i = 0; i < 16; ++i) {
    layer.weights["W_Q.weight"].data[i] = i % 2 == 0 ? 1 : 0;
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < 5000; ++t) {
    rows.push_back(t);
  }
  const Bounded q =
      bounded_queries({config, layer.weights, 1}, layer.x, rows, Arithmetic::float32());
  Tensor turned = zeros(q.value.shape);
  for (std::int64_t i = 0; i < 5000 * 16; i += 2) {
    const float exponent = static_cast<float>(i % 16) / 16.0f;
    const float frequency = std::exp(-std::log(10000.0f) * exponent);
    const float angle = static_cast<float>(i / 16) / 3.0f * frequency;
    turned.data[i] = std::cos(angle);
    turned.data[i + 1] = std::sin(angle);
  }
  const double share = largest_share(turned, q.value, q.error);
  RecordProperty("share", std::to_string(share));
  EXPECT_GT(share, 0.1);
}

// 1 + 63 * 2^-25 again, summed by the mean over a window of 64 keys.
TEST(Tightness, SumsThatLoseEveryTermComeCloseToTheBoundOfAMean) {
  AttentionConfig config = one_head(1, 2);
  config.l = config.d = config.l_sel = 64;
  config.rope_scale = 1e30;
  Random random(1);
  RandomLayer layer(random, config, 1, 64);
  layer.weights["W_K_cmp.weight"].data = {1, 0};
  std::fill(layer.x.data.begin(), layer.x.data.end(), std::ldexp(1, -25));
  layer.x.data[0] = 1;
  const Bounded k =
      bounded_compressed_keys({config, layer.weights, 1}, layer.x, Arithmetic::float32());
  const double error = std::abs(1.0 / 64 - k.value.data[0]);
  EXPECT_NEAR(error, 63 * std::ldexp(1, -25) / 64, 1e-15);
  EXPECT_LT(error, k.error.data[0]);
  EXPECT_GT(error, 0.2 * k.error.data[0]);
}

// A raw key whose sum lost every term, alone in its window, by way of every phi: a mean of one; a
// tap of one; the mlp with silu(key) as its first number.
TEST(Tightness, ErrorsOfRawKeysReachTheCompressedOnes) {
  AttentionConfig config = one_head(64, 2);
  for (const Phi phi : {Phi::avg, Phi::conv, Phi::mlp}) {
    config.phi = phi;
    Random random(1);
    RandomLayer layer(random, config, 1, 1);
    for (auto& [name, weight] : layer.weights) {
      const bool pe = name == "phi_k.pe";
      std::fill(weight.data.begin(), weight.data.end(), name == "W_K_cmp.weight" ? 1.0 : 0.0);
      weight.data[0] = pe ? 0 : 1;
    }
    std::fill(layer.x.data.begin(), layer.x.data.end(), std::ldexp(1, -25));
    layer.x.data[0] = 1;
    const Bounded k =
        bounded_compressed_keys({config, layer.weights, 1}, layer.x, Arithmetic::float32());
    const double found = phi == Phi::mlp ? 1 / (1 + std::exp(-1.0)) : 1;
    const double error = std::abs(found - k.value.data[0]);
    EXPECT_GT(error, 25 * std::ldexp(1, -24));
    EXPECT_LT(error, k.error.data[0]);
    EXPECT_GT(error, 0.1 * k.error.data[0]);
  }
}

// The same sum in the second number of a pair alone: rotation brings its error into the first.
TEST(Tightness, RotationCarriesErrorsAcrossAPair) {
  const AttentionConfig config = one_head(64, 2);
  Random random(1);
  RandomLayer layer(random, config, 1, 2);
  Tensor& weight = layer.weights["W_Q.weight"];
  std::fill(weight.data.begin(), weight.data.begin() + 64, 0.0);
  std::fill(weight.data.begin() + 64, weight.data.end(), 1.0);
  std::fill(layer.x.data.begin(), layer.x.data.end(), std::ldexp(1, -25));
  layer.x.data[0] = layer.x.data[64] = 1;
  const Bounded q =
      bounded_queries({config, layer.weights, 1}, layer.x, {1}, Arithmetic::float32());
  const double error = std::abs(-std::sin(1.0) - q.value.data[0]);
  EXPECT_GT(error, 25 * std::ldexp(1, -24));
  EXPECT_LT(error, q.error.data[0]);
  EXPECT_GT(error, 0.2 * q.error.data[0]);
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

// Query and key both lose every term of their sums, 1 + 63 * 2^-24 with ties to even; neither's
// error alone would explain what the logit loses. The other token is zero.
TEST(Tightness, ErrorsOfQueriesAndKeysAddUp) {
  AttentionConfig config = one_head(64, 2);
  config.rope_scale = 1e30;
  Random random(1);
  RandomLayer layer(random, config, 1, 2);
  for (const char* name : {"W_Q.weight", "W_K_cmp.weight"}) {
    Tensor& weight = layer.weights[name];
    std::fill(weight.data.begin(), weight.data.begin() + 64, name[2] == 'Q' ? -16.0 : 1.0);
    std::fill(weight.data.begin() + 64, weight.data.end(), 0.0);
  }
  std::fill(layer.x.data.begin(), layer.x.data.begin() + 64, 0.0);
  std::fill(layer.x.data.begin() + 64, layer.x.data.end(), std::ldexp(1, -24));
  layer.x.data[64] = 1;
  const double right = attention(config, layer.weights, layer.x).p_grp.data[3];
  const double lossy = 1 / (1 + std::exp(16 / std::sqrt(2.0)));
  const Tensor bound = score_bound(config, layer.weights, layer.x, Arithmetic::float32(), {1});
  EXPECT_LT(std::abs(lossy - right), bound.data[1]);
  EXPECT_GT(std::abs(lossy - right), 0.5 * bound.data[1]);
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
  EXPECT_EQ(a.angle, std::ldexp(1, -52));
}

TEST(Gamma, BoundsTheRoundingsOfASum) {
  EXPECT_EQ(gamma(0, 0.1), 0);
  EXPECT_DOUBLE_EQ(gamma(2, 0.25), 1);
  EXPECT_EQ(gamma(4, 0.25), 1e30);
}

}  // namespace
}  // namespace oracles::testing
