// What the oracle refuses, and the pieces under it: products of matrices, and threads.
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/matmul.h"
#include "oracles/parallel.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::function<void(RandomLayer&, AttentionOptions&)>& spoil) {
  RandomLayer layer = dropping_layer(1);
  AttentionOptions options;
  spoil(layer, options);
  try {
    attention_with_gradients(layer.config, layer.weights, layer.x, layer.dy, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not refused";
}

std::string refused_config(const std::function<void(AttentionConfig&)>& spoil) {
  return refusal([&](RandomLayer& layer, AttentionOptions&) { spoil(layer.config); });
}

TEST(Inputs, RefusesImpossibleConfigs) {
  EXPECT_THAT(refused_config([](auto& c) { c.d = 3; }), HasSubstr("d = 3 must divide l = 4"));
  EXPECT_THAT(refused_config([](auto& c) { c.l_sel = 5; }), HasSubstr("d = 2 must divide l_sel"));
  EXPECT_THAT(refused_config([](auto& c) { c.n_heads = 5; }), HasSubstr("must divide n_heads = 5"));
  EXPECT_THAT(refused_config([](auto& c) { c.n_sel = 2; }), HasSubstr("at least init_blocks"));
}

TEST(Inputs, RefusesImpossibleSizes) {
  EXPECT_THAT(refused_config([](auto& c) { c.d_k = 5; }), HasSubstr("d_k = 5 must be even"));
  EXPECT_THAT(refused_config([](auto& c) { c.dim = 0; }), HasSubstr("dim = 0, wanted 1 to"));
  EXPECT_THAT(refused_config([](auto& c) { c.w = -1; }), HasSubstr("w = -1"));
  EXPECT_THAT(refused_config([](auto& c) { c.local_blocks = 0; }), HasSubstr("local_blocks = 0"));
}

TEST(Inputs, RefusesImpossibleNumbers) {
  EXPECT_THAT(refused_config([](auto& c) { c.rope_scale = 0; }), HasSubstr("rope_scale"));
  EXPECT_THAT(refused_config([](auto& c) { c.rope_base = NAN; }), HasSubstr("rope_base"));
  EXPECT_THAT(refused_config([](auto& c) { c.gate_temp = -1; }), HasSubstr("gate_temp"));
}

TEST(Inputs, RefusesWeightsThatDoNotFit) {
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.weights.erase("W_Q.weight"); }),
              HasSubstr("weight W_Q.weight is missing"));
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.weights["gate.proj.weight"] = {}; }),
              HasSubstr("gate.proj.weight is not one"));
  EXPECT_THAT(refusal([](auto& layer, auto&) {
                layer.weights["out.weight"].shape = {30, 7};
              }),
              HasSubstr("out.weight: found shape [30,7], wanted [7,30]"));
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.weights["out.weight"].data.pop_back(); }),
              HasSubstr("found 209 elements"));
}

TEST(Inputs, RefusesNumbersThatAreNone) {
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.weights["out.weight"].data[3] = NAN; }),
              HasSubstr("out.weight: element 3 is nan"));
  EXPECT_THAT(refusal([](auto& layer, auto&) {
                layer.x.data[2] = -std::numeric_limits<double>::infinity();
              }),
              HasSubstr("x: element 2 is -inf"));
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.dy.data[1] = NAN; }), HasSubstr("dy"));
}

TEST(Inputs, RefusesTensorsThatDoNotFit) {
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.x.shape = {74, 7}; }), HasSubstr("x: found"));
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.x.shape = {2, 36, 7}; }), HasSubstr("x"));
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.x = zeros({2, 0, 7}); }), HasSubstr("x"));
  EXPECT_THAT(refusal([](auto& layer, auto&) { layer.dy.shape = {37, 2, 7}; }), HasSubstr("dy"));
}

TEST(Inputs, RefusesRowsThatAreNotPositions) {
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{37}, {-1}, {3, 3}, {5, 4}}) {
    EXPECT_THAT(refusal([&](auto&, auto& options) { options.rows = rows; }), HasSubstr("rows"));
  }
}

TEST(Inputs, RefusesBlocksThatAreNoList) {
  for (const std::vector<std::int64_t>& row : {std::vector<std::int64_t>{2, 1, -1, -1},
                                               {1, 1, -1, -1},
                                               {0, -1, 2, -1},
                                               {0, 1, 2, 10},
                                               {-2, -1, -1, -1}}) {
    EXPECT_THAT(refusal([&](auto&, auto& options) {
                  options.replay = filled<std::int64_t>({2, 2, 37, 4}, -1);
                  std::copy(row.begin(), row.end(), options.replay->data.end() - 4);
                }),
                HasSubstr("replay"));
  }
  EXPECT_THAT(refusal([](auto&, auto& options) {
                options.replay = filled<std::int64_t>({2, 2, 37, 3}, -1);
              }),
              HasSubstr("replay: found shape"));
}

TEST(Shapes, RefusesWhatDoesNotFit63Bits) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
  EXPECT_THROW(element_count({-1}), std::invalid_argument);
  EXPECT_THROW(element_count({std::int64_t{1} << 40, std::int64_t{1} << 40}),
               std::invalid_argument);
}

TEST(Shapes, HeadsAreSplitAndMerged) {
  const Tensor tokens{{1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const Tensor heads = split_heads(tokens, 2);
  EXPECT_EQ(heads.shape, (Shape{1, 2, 2, 2}));
  EXPECT_EQ(heads.data, (std::vector<double>{1, 2, 5, 6, 3, 4, 7, 8}));
  EXPECT_EQ(merge_heads(heads).data, tokens.data);
}

// c + a_0 b_0 + a_1 b_1 + ... from left to right.
double plain_product(const View& a, const View& b, std::int64_t i, std::int64_t j, double c) {
  for (std::int64_t k = 0; k < a.columns; ++k) {
    const double product =
        a.data[i * a.row_step + k * a.column_step] * b.data[k * b.row_step + j * b.column_step];
    c += product;
  }
  return c;
}

TEST(Matmul, EveryBitIsThatOfTheSumFromLeftToRight) {
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t m = random.from(1, 90);
    const std::int64_t n = random.from(1, 20);
    const std::int64_t terms = random.from(0, 30);
    const Tensor a = random.tensor({m * terms}, 1);
    const Tensor b = random.tensor({terms * n}, 1);
    const Tensor c = random.tensor({m, n}, 1);
    const bool turned = round % 2 == 0;
    const View left =
        turned ? View{a.data.data(), m, terms, 1, m} : View{a.data.data(), m, terms, terms, 1};
    const View right{b.data.data(), terms, n, n, 1};
    Tensor small = c;
    Tensor large = c;
    multiply_add(left, right, {small.data.data(), m, n, n});
    multiply_add_large(left, right, {large.data.data(), m, n, n}, 2);
    for (std::int64_t i = 0; i < m * n; ++i) {
      const double wanted = plain_product(left, right, i / n, i % n, c.data[i]);
      ASSERT_EQ(small.data[i], wanted) << m << "x" << terms << "x" << n;
      ASSERT_EQ(large.data[i], wanted) << m << "x" << terms << "x" << n;
    }
  }
}

TEST(Matmul, WritesNothingBesideItsPart) {
  std::vector<double> c(5 * 20, 7.0);
  const std::vector<double> ones(100, 1.0);
  multiply_add({ones.data(), 3, 4, 4, 1}, {ones.data(), 4, 11, 11, 1}, {c.data() + 22, 3, 11, 20});
  multiply_add_large(
      {ones.data(), 3, 4, 4, 1}, {ones.data(), 4, 11, 11, 1}, {c.data() + 22, 3, 11, 20}, 1);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool inside = i / 20 >= 1 && i / 20 <= 3 && i % 20 >= 2 && i % 20 < 13;
    EXPECT_EQ(c[i], inside ? 15 : 7) << i;
  }
}

TEST(Parallel, VisitsEveryItemOnce) {
  for (const int threads : {0, 1, 2, 9}) {
    std::vector<std::atomic<int>> visits(101);
    parallel_for(101, 7, threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        ++visits[i];
      }
    });
    for (const std::atomic<int>& count : visits) {
      EXPECT_EQ(count, 1);
    }
  }
  parallel_for(0, 7, 2, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST(Parallel, HandsAnExceptionOn) {
  const auto raise = [](std::int64_t begin, std::int64_t) {
    if (begin >= 50) {
      throw std::runtime_error("raised");
    }
  };
  EXPECT_THROW(parallel_for(100, 10, 3, raise), std::runtime_error);
}

}  // namespace
}  // namespace oracles::testing
