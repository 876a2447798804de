// The oracle as a second computation in a narrow type: what it keeps is of that type, what it keeps
// once is rounded once, and what it does not keep is not rounded at all.
#include "oracles/attention/kept.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "oracles/attention/backward.h"
#include "oracles/attention/narrow_steps.h"
#include "oracles/attention/stages.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

constexpr std::uint64_t kSeeds = 12;

Kept kept_in(Number number, bool narrow_products = false) {
  return {number, number, {narrow_products, narrow_products, narrow_products}};
}

Tensor of_type(Tensor tensor, Number number) {
  Kept{}.round(tensor.data, number);
  return tensor;
}

// A layer whose input and weights are of the type.
RandomLayer narrow_layer(std::uint64_t seed, Number number) {
  RandomLayer layer = random_layer(seed);
  layer.x = of_type(layer.x, number);
  layer.dy = of_type(layer.dy, number);
  for (auto& [name, weight] : layer.weights) weight = of_type(weight, number);
  return layer;
}

AttentionPass pass_of(const RandomLayer& layer, const Kept& kept) {
  AttentionOptions options;
  options.replay = attention(layer.config, layer.weights, layer.x).blocks;
  options.kept = kept;
  return attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy, options);
}

std::map<std::string, Tensor> tensors_of(const AttentionPass& pass) {
  const AttentionResult& r = pass.result;
  std::map<std::string, Tensor> all = {{"q", r.q},
                                       {"k_cmp", r.k_cmp},
                                       {"v_cmp", r.v_cmp},
                                       {"o_cmp", r.o_cmp},
                                       {"o_sel", r.o_sel},
                                       {"o_win", r.o_win},
                                       {"gate", r.gate},
                                       {"y", r.y},
                                       {"dx", pass.gradients.x}};
  for (const auto& [name, gradient] : pass.gradients.weights) all["g." + name] = gradient;
  return all;
}

double largest(const Tensor& tensor) {
  double most = 0;
  for (const double value : tensor.data) most = std::max(most, std::abs(value));
  return most;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    most = std::max(most, std::abs(a.data[i] - b.data[i]));
  }
  return most;
}

TEST(Kept, WhatIsKeptIsOfTheType) {
  for (const Number number : {Number::bf16, Number::f16}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      for (const auto& [name, tensor] :
           tensors_of(pass_of(narrow_layer(seed, number), kept_in(number, seed % 2 == 0)))) {
        const bool all = std::all_of(tensor.data.begin(), tensor.data.end(), [&](double value) {
          return rounded(value, number) == value;
        });
        EXPECT_TRUE(all) << number_name(number) << " seed " << seed << ": " << name;
      }
    }
  }
}

// Stage by stage, from the inputs of each: branch outputs and values are one sum, rounded once.
TEST(Kept, OneSumIsRoundedOnce) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RandomLayer layer = narrow_layer(seed, Number::bf16);
    AttentionOptions options;
    options.replay = attention(layer.config, layer.weights, layer.x).blocks;
    const Stages right(layer.config, layer.weights, layer.x, options);
    options.kept = kept_in(Number::bf16);
    Stages plain(layer.config, layer.weights, layer.x, options);
    const std::vector<Stage> inputs = {Stage::q,
                                       Stage::k_cmp,
                                       Stage::v_cmp,
                                       Stage::k_sel,
                                       Stage::v_sel,
                                       Stage::k_win,
                                       Stage::v_win};
    for (const Stage stage : inputs) plain.record(stage, right.input(stage));
    for (const Stage stage : {Stage::o_cmp, Stage::o_sel, Stage::o_win}) {
      const Tensor wanted = of_type(right.right(stage), Number::bf16);
      EXPECT_EQ(plain.right(stage).data, wanted.data) << stage_name(stage) << ", seed " << seed;
    }
    EXPECT_EQ(plain.right(Stage::v_sel).data,
              of_type(right.right(Stage::v_sel), Number::bf16).data);
  }
}

// A handful of roundings in a row: some units, never a function of the number of terms.
TEST(Kept, ErrorsAreSomeUnitRoundoffs) {
  for (const Number number : {Number::bf16, Number::f16}) {
    const double u = unit_roundoff(number);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const RandomLayer layer = narrow_layer(seed, number);
      const auto right = tensors_of(pass_of(layer, {}));
      double gradients = 0;
      double outputs = 0;
      for (const auto& [name, tensor] : right) {
        double& scale = name[0] == 'g' && name != "gate" ? gradients : outputs;
        scale = std::max(scale, largest(tensor));
      }
      bool differs = false;
      for (const auto& [name, tensor] : tensors_of(pass_of(layer, kept_in(number)))) {
        const double difference = largest_difference(tensor, right.at(name));
        const double scale = name[0] == 'g' && name != "gate" ? gradients : outputs;
        EXPECT_LE(difference, 64 * u * std::max(scale, largest(right.at("dx")))) << name;
        differs = differs || difference > u / 8 * largest(right.at(name));
      }
      EXPECT_TRUE(differs) << seed;
    }
  }
}

TEST(Kept, NarrowProductsAreAnotherComputation) {
  std::size_t different = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RandomLayer layer = narrow_layer(seed, Number::bf16);
    const auto wide = tensors_of(pass_of(layer, kept_in(Number::bf16)));
    for (const auto& [name, tensor] : tensors_of(pass_of(layer, kept_in(Number::bf16, true)))) {
      different += tensor.data != wide.at(name).data ? 1 : 0;
    }
  }
  EXPECT_GT(different, kSeeds);
}

TEST(Kept, NothingIsRoundedUnlessItIsAsked) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RandomLayer layer = random_layer(seed);
    const Stages right(layer.config, layer.weights, layer.x);
    const Tensor k = right.right(Stage::k_sel);
    const bool narrow = std::all_of(k.data.begin(), k.data.end(), [](double value) {
      return rounded(value, Number::f32) == value;
    });
    EXPECT_FALSE(narrow) << seed;
  }
}

// As the errors of rounding numbers with unrelated digits are: half a unit at most, one in twelve on average of the squares.
TEST(DrawnRounding, HasTheErrorsOfARoundingAndNoOthers) {
  for (const Number number : {Number::bf16, Number::f16}) {
    Kept kept = kept_in(number);
    double squares = 0;
    double sum = 0;
    constexpr int kCount = 20000;
    for (int i = 0; i < kCount; ++i) {
      kept.draw = static_cast<std::uint64_t>(1 + i % 8);
      const double value = 1.0 + (i + 0.5) / 70001.0;
      const double error = (kept.of(value, number) - value) / spacing(value, number);
      ASSERT_LE(std::abs(error), 0.5);
      squares += error * error;
      sum += error;
    }
    EXPECT_NEAR(squares / kCount, 1.0 / 12, 0.005);
    EXPECT_NEAR(sum / kCount, 0, 0.01);
  }
}

TEST(DrawnRounding, LeavesNumbersOfTheTypeAndTreatsEqualOnesAlike) {
  Kept kept = kept_in(Number::bf16);
  kept.draw = 3;
  for (const double value : {0.0, 1.0, -0.375, 100.0}) {
    EXPECT_EQ(kept.of(value, Number::bf16), value);
    EXPECT_EQ(kept.of(value * (1 + 1e-15), Number::bf16), value) << "what float64 is off by";
  }
  EXPECT_EQ(kept.of(1.0 / 3, Number::bf16), kept.of(1.0 / 3, Number::bf16));
  Kept other = kept;
  other.draw = 4;
  EXPECT_NE(kept.of(1.0 / 3, Number::bf16), other.of(1.0 / 3, Number::bf16));
  other.draw = 0;
  EXPECT_EQ(other.of(1.0 / 3, Number::bf16), rounded(1.0 / 3, Number::bf16));
}

// The gradient of a branch's keys where every query sees one key: zero by the equations, and in float32 what two sums of the same
// terms differ by, here one in order and one backwards. do and v are [B,G,(h,)S,V], q is [B,G,h,S,D].
Tensor key_gradient_of_one_key(const Tensor& d_o, const Tensor& v, const Tensor& q, Number number) {
  Tensor dk = zeros({q.shape[0], q.shape[1], q.shape[3], q.shape[4]});
  const std::int64_t heads = q.shape[2];
  const std::int64_t rows = q.shape[3];
  const std::int64_t width = q.shape[4];
  const std::int64_t depth = v.shape[3];
  for (std::int64_t place = 0; place < q.shape[0] * q.shape[1] * heads * rows; ++place) {
    const std::int64_t key = place / rows / heads * rows + place % rows;
    const double* const gradient = d_o.data.data() + place * depth;
    const double* const value = v.data.data() + key * depth;
    float forth = 0;
    float back = 0;
    for (std::int64_t c = 0; c < depth; ++c) {
      forth += static_cast<float>(gradient[c] * value[c]);
      back += static_cast<float>(gradient[depth - 1 - c] * value[depth - 1 - c]);
    }
    const double ds = rounded((forth - back) / std::sqrt(static_cast<double>(width)), number);
    for (std::int64_t d = 0; d < width; ++d) {
      dk.data[key * width + d] += ds * q.data[place * width + d];
    }
  }
  return dk;
}

TEST(DrawnRounding, CoversSumsInFloat32WhereNothingElseIsLeft) {
  double furthest = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    AttentionConfig config = random_config(random);
    config.w = 1;
    config.d_v = 16;
    RandomLayer layer(random, config, 2, 9);
    for (Tensor* const tensor : {&layer.x, &layer.dy}) *tensor = of_type(*tensor, Number::f16);
    for (auto& [name, weight] : layer.weights) weight = of_type(weight, Number::f16);
    const auto key_gradient = [&](std::uint64_t draw, Tensor* in_float32) {
      AttentionOptions options;
      options.replay = attention(layer.config, layer.weights, layer.x).blocks;
      options.kept = kept_in(Number::f16, true);
      Stages forward(layer.config, layer.weights, layer.x, options);
      for (const Stage stage : {Stage::q, Stage::k_win, Stage::v_win, Stage::o_win}) {
        forward.record(stage, forward.input(stage));
      }
      const Backward at_record(forward, layer.dy);
      if (in_float32 != nullptr) {
        *in_float32 = key_gradient_of_one_key(at_record.of_output(Branch::win),
                                              forward.input(Stage::v_win),
                                              forward.input(Stage::q),
                                              Number::f16);
      }
      options.kept.draw = draw;
      Stages drawn(layer.config, layer.weights, layer.x, options);
      for (const Stage stage : {Stage::q, Stage::k_win, Stage::v_win, Stage::o_win}) {
        drawn.record(stage, forward.input(stage));
      }
      return Backward(drawn, layer.dy).through(Branch::win).k;
    };
    Tensor found;
    EXPECT_EQ(largest(key_gradient(0, &found)), 0) << seed;
    double most = 0;
    for (std::uint64_t draw = 1; draw <= 8; ++draw) {
      most = std::max(most, largest(key_gradient(draw, nullptr)));
    }
    EXPECT_LE(largest(found), 3 * most) << seed;
    furthest = std::max(furthest, largest(found) / most);
  }
  EXPECT_GT(furthest, 0.02) << "the draws are far too wide";
}

// One query's attention to keys [begin, row] and its backward in float32, sums one after the other: adds to dk.
void add_key_gradient_in_float32(const double* q,
                                 const double* k,
                                 const double* v,
                                 const double* d_o,
                                 std::int64_t begin,
                                 std::int64_t row,
                                 const AttentionConfig& config,
                                 std::vector<float>& dk) {
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(config.d_k)));
  std::vector<float> p;
  std::vector<float> dp;
  float sum = 0;
  for (std::int64_t key = begin; key <= row; ++key) {
    float logit = 0;
    for (std::int64_t d = 0; d < config.d_k; ++d) {
      logit += static_cast<float>(q[d] * k[key * config.d_k + d]);
    }
    p.push_back(std::exp(logit / root));
    sum += p.back();
    dp.push_back(0);
    for (std::int64_t c = 0; c < config.d_v; ++c) {
      dp.back() += static_cast<float>(d_o[c] * v[key * config.d_v + c]);
    }
  }
  float mean = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    p[i] /= sum;
    mean += p[i] * dp[i];
  }
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float ds = p[i] * (dp[i] - mean) / root;
    for (std::int64_t d = 0; d < config.d_k; ++d) {
      dk[(begin + static_cast<std::int64_t>(i)) * config.d_k + d] += ds * static_cast<float>(q[d]);
    }
  }
}

// Where all tokens are one, so are the gradients of a query's probabilities, and the softmax passes on what float32 makes of their
// mean. The rounding of every product's result says nothing of it.
TEST(DrawnRounding, CoversTheMeanOverEqualKeys) {
  double furthest = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    AttentionConfig config = random_config(random);
    config.w = 7;
    config.d_v = 16;
    RandomLayer layer(random, config, 1, 9);
    for (std::size_t i = 0; i < layer.x.data.size(); ++i) {
      layer.x.data[i] = layer.x.data[i % static_cast<std::size_t>(config.dim)];
    }
    for (Tensor* const tensor : {&layer.x, &layer.dy}) *tensor = of_type(*tensor, Number::bf16);
    for (auto& [name, weight] : layer.weights) weight = of_type(weight, Number::bf16);
    const auto key_gradient = [&](std::uint64_t draw, std::vector<float>* in_float32) {
      AttentionOptions options;
      options.replay = attention(layer.config, layer.weights, layer.x).blocks;
      options.kept = kept_in(Number::bf16);
      Stages forward(layer.config, layer.weights, layer.x, options);
      options.kept.draw = draw;
      Stages drawn(layer.config, layer.weights, layer.x, options);
      for (const Stage stage : {Stage::q, Stage::k_win, Stage::v_win, Stage::o_win}) {
        drawn.record(stage, forward.input(stage));
      }
      const Backward backward(drawn, layer.dy);
      if (in_float32 != nullptr) {
        const std::int64_t rows = layer.length();
        const std::int64_t per_group = config.n_heads / config.n_kv_groups;
        in_float32->assign(forward.input(Stage::k_win).data.size(), 0.0F);
        for (std::int64_t place = 0; place < config.n_heads * rows; ++place) {
          const std::int64_t group = place / rows / per_group;
          const std::int64_t row = place % rows;
          std::vector<float> dk(static_cast<std::size_t>(rows * config.d_k), 0.0F);
          add_key_gradient_in_float32(
              forward.input(Stage::q).data.data() + place * config.d_k,
              forward.input(Stage::k_win).data.data() + group * rows * config.d_k,
              forward.input(Stage::v_win).data.data() + group * rows * config.d_v,
              backward.of_output(Branch::win).data.data() + place * config.d_v,
              std::max<std::int64_t>(0, row - config.w + 1),
              row,
              config,
              dk);
          for (std::size_t i = 0; i < dk.size(); ++i) {
            (*in_float32)[static_cast<std::size_t>(group * rows * config.d_k) + i] += dk[i];
          }
        }
      }
      return backward.through(Branch::win).k;
    };
    std::vector<float> in_float32;
    EXPECT_LT(largest(key_gradient(0, &in_float32)), 1e-14) << seed;
    double most = 0;
    for (std::uint64_t draw = 1; draw <= 8; ++draw) {
      most = std::max(most, largest(key_gradient(draw, nullptr)));
    }
    double found = 0;
    for (const float value : in_float32)
      found = std::max(found, static_cast<double>(std::abs(value)));
    EXPECT_LE(found, 3 * most) << seed;
    furthest = std::max(furthest, found / most);
  }
  EXPECT_GT(furthest, 0.02) << "the draws are far too wide";
}

// ---- roundings before the softmax --------------------------------------------------------------------

double narrow(double value) {
  return rounded(value, Number::bf16);
}

// The logit of a query and a key, one number at a time.
double logit_rounded(ScoreRounding how,
                     double factor,
                     const std::vector<double>& q,
                     const std::vector<double>& k) {
  const double root = 1 / std::sqrt(static_cast<double>(q.size()));
  const double log2e = how == ScoreRounding::scaled_query_log2 ? 1 / std::log(2.0) : 1;
  const bool of_query = how == ScoreRounding::scaled_query || log2e != 1;
  double sum = 0;
  for (std::size_t i = 0; i < q.size(); ++i) {
    sum += (of_query ? narrow(q[i] * root * log2e) / log2e : q[i]) * k[i];
  }
  if (of_query) return sum;
  double score = sum * root / factor;
  if (how != ScoreRounding::scaled_scores) score = narrow(score);
  score *= factor;
  return how == ScoreRounding::scores ? score : narrow(score);
}

TEST(ScoreRoundings, GiveWhatLoopsGive) {
  const RandomLayer layer =
      dropping_layer(3);  // d_k is 6: a root that is a power of two moves no rounding
  AttentionOptions options;
  options.kept = kept_in(Number::bf16);
  const Stages stages(layer.config, layer.weights, layer.x, options);
  const Tensor& q = stages.input(Stage::q);
  const Tensor& k = stages.input(Stage::k_win);
  const Tensor& v = stages.input(Stage::v_win);
  const Tensor right = stages.right(Stage::o_win);
  const auto vector_of = [](const Tensor& tensor, std::int64_t at) {
    const std::int64_t width = tensor.shape.back();
    return std::vector<double>(tensor.data.begin() + at * width,
                               tensor.data.begin() + (at + 1) * width);
  };
  const Sizes& n = stages.sizes();
  for (const auto how : {ScoreRounding::scaled_query,
                         ScoreRounding::scaled_query_log2,
                         ScoreRounding::scores,
                         ScoreRounding::scaled_scores,
                         ScoreRounding::scores_twice}) {
    constexpr double kFactor = 0.3;
    const Tensor found = with_score_rounding(stages, Branch::win, how, kFactor);
    for (std::int64_t lane = 0; lane < n.batch_groups() * n.heads; ++lane) {
      for (std::int64_t row = 0; row < n.rows; ++row) {
        std::vector<double> out(static_cast<std::size_t>(layer.config.d_v), 0.0);
        double sum = 0;
        for (std::int64_t u = std::max<std::int64_t>(0, row - layer.config.w + 1); u <= row; ++u) {
          const std::int64_t key = lane / n.heads * n.rows + u;
          const double weight = std::exp(
              logit_rounded(how, kFactor, vector_of(q, lane * n.rows + row), vector_of(k, key)));
          sum += weight;
          const std::vector<double> value = vector_of(v, key);
          for (std::size_t c = 0; c < out.size(); ++c) out[c] += weight * value[c];
        }
        for (std::size_t c = 0; c < out.size(); ++c) {
          const auto at = static_cast<std::size_t>(lane * n.rows + row) * out.size() + c;
          ASSERT_EQ(found.data[at], narrow(out[c] / sum));
        }
      }
    }
    EXPECT_NE(found.data, right.data);
  }
}

}  // namespace
}  // namespace oracles::testing
