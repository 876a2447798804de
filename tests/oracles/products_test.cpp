// Random projections: right products pass whatever the order of their sums, wrong rows and columns
// are found and named, and what is missed is missed as seldom as said.
#include "oracles/products.h"

#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

using ::testing::ElementsAre;

struct Floats {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<float> values;

  Floats(std::int64_t r, std::int64_t c) : rows(r), columns(c) {
    values.resize(static_cast<std::size_t>(r * c));
  }
  Floats(Random& random, std::int64_t r, std::int64_t c, double mean = 0) : Floats(r, c) {
    for (float& value : values) {
      value = static_cast<float>(mean + random.normal());
    }
  }
  float& at(std::int64_t r, std::int64_t c) { return values[r * columns + c]; }
  [[nodiscard]] float at(std::int64_t r, std::int64_t c) const { return values[r * columns + c]; }
  [[nodiscard]] Matrix view() const { return {Numbers::of(values), rows, columns}; }
};

// Element (i, j) of a product, as `term(k)` summed one after the other in float32 or in four sums.
float summed(std::int64_t terms, bool in_order, const std::function<float(std::int64_t)>& term) {
  float sums[4] = {};
  for (std::int64_t k = 0; k < terms; ++k) {
    sums[in_order ? 0 : k % 4] += term(k);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

struct Linear {
  Floats x, w, y, dx, dw;  // dy is y

  Linear(std::uint64_t seed, bool in_order, double mean = 0, std::int64_t length = 61)
      : x(0, 0), w(0, 0), y(0, 0), dx(0, 0), dw(0, 0) {
    Random random(seed);
    x = Floats(random, length, 85, mean);
    w = Floats(random, 37, 85, mean);
    y = Floats(length, 37);
    dx = Floats(length, 85);
    dw = Floats(37, 85);
    for (std::int64_t r = 0; r < length; ++r) {
      for (std::int64_t o = 0; o < 37; ++o) {
        y.at(r, o) = summed(85, in_order, [&](auto k) { return x.at(r, k) * w.at(o, k); });
      }
    }
    for (std::int64_t r = 0; r < length; ++r) {
      for (std::int64_t i = 0; i < 85; ++i) {
        dx.at(r, i) = summed(37, in_order, [&](auto k) { return y.at(r, k) * w.at(k, i); });
      }
    }
    for (std::int64_t o = 0; o < 37; ++o) {
      for (std::int64_t i = 0; i < 85; ++i) {
        dw.at(o, i) = summed(length, in_order, [&](auto k) { return y.at(k, o) * x.at(k, i); });
      }
    }
  }

  [[nodiscard]] std::vector<Product> products() const {
    const Rounding rounding = Rounding::of(Number::f32);
    return {linear_product(x.view(), w.view(), y.view(), rounding),
            input_gradient_product(y.view(), w.view(), dx.view(), rounding),
            weight_gradient_product(y.view(), x.view(), dw.view(), rounding)};
  }
};

// Numbers of mean 3 never cancel: the worst case of rounding.
TEST(Products, RightOnesPass) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Linear linear(seed, seed % 2 == 0, seed % 3 == 0 ? 3 : 0);
    for (const Product& product : linear.products()) {
      const ProductJudgement judgement = judge_product(product, seed, 1);
      ASSERT_TRUE(judgement.fits()) << seed;
      EXPECT_EQ(judgement.rows.judged, product.result.rows);
      EXPECT_EQ(judgement.columns.judged, product.result.columns);
      worst = std::max({worst, judgement.rows.worst, judgement.columns.worst});
    }
  }
  EXPECT_GT(worst, 0.005);  // a bound far wider than roundings would see less
}

TEST(Products, LongSumsThatNeverCancelPass) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Linear linear(seed, true, 3, 3000);
    EXPECT_TRUE(judge_product(linear.products()[2], seed, 2).fits());
  }
}

TEST(Products, AWrongElementIsNamedByRowAndColumn) {
  Linear linear(1, true);
  const std::vector<Product> products = linear.products();
  linear.dw.at(36, 0) = NAN;
  linear.dx.at(3, 84) += 0.05F;
  const ProductJudgement dw = judge_product(products[2], 1, 1);
  EXPECT_THAT(dw.wrong_rows, ElementsAre(36));
  EXPECT_THAT(dw.wrong_columns, ElementsAre(0));
  EXPECT_EQ(dw.rows.worst, std::numeric_limits<double>::infinity());
  EXPECT_THAT(judge_product(products[1], 1, 1).wrong_columns, ElementsAre(84));
  linear.y.at(40, 11) *= 1.02F;
  const ProductJudgement y = judge_product(products[0], 1, 1);
  EXPECT_THAT(y.wrong_rows, ElementsAre(40));
  EXPECT_THAT(y.wrong_columns, ElementsAre(11));
  EXPECT_EQ(y.rows.first, 40);
  EXPECT_GT(y.rows.worst, 1);
}

TEST(Products, AWrongColumnIsNamedAlone) {
  Linear linear(2, false);
  for (std::int64_t r = 0; r < 61; ++r) {
    linear.y.at(r, 5) *= 1.002F;
  }
  EXPECT_THAT(judge_product(linear.products()[0], 7, 1).wrong_columns, ElementsAre(5));
}

// Heads exchanged, a transposed weight, a lost term: whole matrices.
TEST(Products, WrongMapsAreFound) {
  Linear linear(3, false);
  const Linear other(4, false);
  Product product = linear.products()[0];
  product.terms[0].a.matrix = other.x.view();
  EXPECT_EQ(judge_product(product, 1, 1).wrong_rows.size(), 61u);
  product = linear.products()[2];
  product.scale = 0.999;
  EXPECT_EQ(judge_product(product, 1, 1).wrong_columns.size(), 85u);
}

// dx of three maps that share their input, and a weight gradient averaged over two micro-batches.
TEST(Products, SumsOfProducts) {
  Linear first(5, true);
  const Linear second(6, true);
  Product product = first.products()[1];
  for (std::size_t i = 0; i < first.dx.values.size(); ++i) {
    first.dx.values[i] += second.dx.values[i];
  }
  EXPECT_FALSE(judge_product(product, 1, 1).fits());
  product.terms.push_back({{second.y.view(), false}, {second.w.view(), false}});
  EXPECT_TRUE(judge_product(product, 1, 1).fits());

  for (std::size_t i = 0; i < first.dw.values.size(); ++i) {
    first.dw.values[i] = (first.dw.values[i] + second.dw.values[i]) / 2;
  }
  product = first.products()[2];
  product.terms.push_back({{second.y.view(), true}, {second.x.view(), false}});
  EXPECT_FALSE(judge_product(product, 1, 1).fits());
  product.scale = 0.5;
  EXPECT_TRUE(judge_product(product, 1, 1).fits());
}

TEST(Products, Float64IsJudgedByFloat64) {
  Random random(9);
  const Tensor x = random.tensor({50, 300}, 1);
  const Tensor w = random.tensor({20, 300}, 1);
  Tensor y = zeros({50, 20});
  for (int r = 0; r < 50; ++r) {
    for (int o = 0; o < 20; ++o) {
      for (int k = 0; k < 300; ++k) {
        y.data[r * 20 + o] += x.data[r * 300 + k] * w.data[o * 300 + k];
      }
    }
  }
  const auto judged = [&] {
    return judge_product(
        linear_product(matrix_of(x), matrix_of(w), matrix_of(y), Rounding::of(Number::f64)), 3, 1);
  };
  EXPECT_TRUE(judged().fits());
  y.data[777] *= 1 + 1e-10;
  EXPECT_THAT(judged().wrong_rows, ElementsAre(38));
}

// bfloat16 keeps eight digits: what rounds once passes, what is off by a twentieth does not.
TEST(Products, ResultsInBfloat16) {
  Random random(10);
  const Floats x(random, 64, 96);
  const Floats w(random, 48, 96);
  std::vector<std::uint16_t> bits;
  const auto judged = [&](float factor) {
    bits.clear();
    for (std::int64_t r = 0; r < 64; ++r) {
      for (std::int64_t o = 0; o < 48; ++o) {
        const float sum = summed(96, true, [&](auto k) { return x.at(r, k) * w.at(o, k); });
        const auto kept = static_cast<float>(rounded(r == 9 ? factor * sum : sum, Number::bf16));
        bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(kept) >> 16));
      }
    }
    const Matrix y{{bits.data(), 64 * 48, Number::bf16}, 64, 48};
    return judge_product(linear_product(x.view(), w.view(), y, Rounding::of(Number::bf16)), 3, 1);
  };
  EXPECT_TRUE(judged(1).fits());
  EXPECT_THAT(judged(1.05F).wrong_rows, ElementsAre(9));
}

// A row off by q bounds in a random direction passes as often as miss_probability(q) says: here 4
// standard deviations of 3000 draws.
TEST(Products, MissesAreAsSeldomAsSaid) {
  EXPECT_EQ(miss_probability(1), 1);
  EXPECT_LT(miss_probability(10), 1e-4);
  const double q = 1.5;
  const double said = miss_probability(q);
  ASSERT_GT(said, 0.05);
  Random random(11);
  const Tensor x = random.tensor({1, 6}, 1);
  const Tensor w = random.tensor({16, 6}, 1);
  Tensor right = zeros({1, 16});
  for (int o = 0; o < 16; ++o) {
    for (int k = 0; k < 6; ++k) {
      right.data[o] += x.data[k] * w.data[o * 6 + k];
    }
  }
  const auto length = [](const Tensor& tensor) {
    double squares = 0;
    for (const double value : tensor.data) {
      squares += value * value;
    }
    return std::sqrt(squares);
  };
  const Rounding rounding = Rounding::of(Number::f32);
  const double bound = 8 * (rounding.stored * length(right) +
                            rounding.summed * (std::sqrt(6) + 2) * length(x) * length(w));
  int missed = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Tensor y = right;
    const Tensor direction = random.tensor({16}, 1);
    for (int o = 0; o < 16; ++o) {
      y.data[o] += q * bound * direction.data[o] / length(direction);
    }
    const Product product = linear_product(matrix_of(x), matrix_of(w), matrix_of(y), rounding);
    missed += judge_product(product, seed, 1).rows.fits() ? 1 : 0;
  }
  EXPECT_LE(missed / 3000.0, said + 4 * std::sqrt(said / 3000));
  EXPECT_GT(missed, 0);
}

TEST(Products, ThreadsChangeNoBit) {
  const Linear linear(12, false, 0, 700);
  for (const Product& product : linear.products()) {
    const ProductJudgement one = judge_product(product, 5, 1);
    const ProductJudgement three = judge_product(product, 5, 3);
    EXPECT_EQ(one.rows.worst, three.rows.worst);
    EXPECT_EQ(one.columns.worst, three.columns.worst);
  }
}

TEST(Products, RefuseWhatDoesNotFit) {
  const Linear linear(13, false);
  Product product = linear.products()[0];
  product.terms[0].b.transposed = false;
  EXPECT_THROW((void)judge_product(product, 1), std::invalid_argument);
  product.terms.clear();
  EXPECT_THROW((void)judge_product(product, 1), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
