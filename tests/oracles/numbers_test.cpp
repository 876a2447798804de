// Recorded numbers in every type, and how laws are told apart.
#include "oracles/numbers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/naming.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Numbers of_bits(const std::vector<std::uint16_t>& bits, Number number) {
  return {bits.data(), static_cast<std::int64_t>(bits.size()), number};
}

TEST(Numbers, BitsOfTheNarrowTypes) {
  const std::vector<std::uint16_t> half{0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00, 0x8000, 0x7E00};
  const Numbers f16 = of_bits(half, Number::f16);
  EXPECT_EQ(f16[0], 1);
  EXPECT_EQ(f16[1], -2);
  EXPECT_EQ(f16[2], 0x1p-24);
  EXPECT_EQ(f16[3], 65504);
  EXPECT_EQ(f16[4], kInfinity);
  EXPECT_TRUE(std::signbit(f16[5]));
  EXPECT_TRUE(std::isnan(f16[6]));
  const std::vector<std::uint16_t> brain{0x3F80, 0xC040, 0x0001, 0x7F80, 0x7FC0};
  const Numbers bf16 = of_bits(brain, Number::bf16);
  EXPECT_EQ(bf16[0], 1);
  EXPECT_EQ(bf16[1], -3);
  EXPECT_EQ(bf16[2], 0x1p-133);
  EXPECT_EQ(bf16[3], kInfinity);
  EXPECT_TRUE(std::isnan(bf16[4]));
  EXPECT_EQ(bf16.values()[1], -3);
}

// Every finite number of a narrow type is its own nearest; halfway between two goes to the even one.
TEST(Numbers, RoundsToTheNearestEven) {
  for (const Number number : {Number::bf16, Number::f16}) {
    for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {
      const std::vector<std::uint16_t> pair{static_cast<std::uint16_t>(bits),
                                            static_cast<std::uint16_t>(bits + 1)};
      const Numbers numbers = of_bits(pair, number);
      const double low = numbers[0];
      const double high = numbers[1];
      ASSERT_EQ(rounded(low, number), low);
      ASSERT_EQ(rounded(-high, number), -high);
      const double middle = low + (high - low) / 2;
      ASSERT_EQ(rounded(middle, number), bits % 2 == 0 ? low : high);
      ASSERT_EQ(rounded(std::nextafter(middle, 0), number), low);
      ASSERT_EQ(rounded(std::nextafter(middle, kInfinity), number), high);
    }
  }
  EXPECT_EQ(rounded(65520, Number::f16), kInfinity);
  EXPECT_EQ(rounded(-65519.99, Number::f16), -65504);
  EXPECT_EQ(rounded(-1e39, Number::f32), -kInfinity);
}

TEST(Numbers, RoundsToFloat32AsTheProcessorDoes) {
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.from(-160, 120)));
    ASSERT_EQ(rounded(value, Number::f32), static_cast<double>(static_cast<float>(value))) << value;
    ASSERT_EQ(rounded(value, Number::f64), value);
  }
}

TEST(Numbers, TheSpacingIsTheDistanceToTheNextNumber) {
  Random random(2);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.from(-160, 120)));
    const double size = std::abs(value);
    ASSERT_EQ(spacing(value, Number::f64), std::nextafter(size, kInfinity) - size) << value;
    // Of a float32 below the value: the distance is that of all numbers up to the next power of two.
    const double below = std::exp2(std::floor(std::log2(size)));
    const auto narrow = static_cast<float>(below);
    const double above = std::nextafter(narrow, std::numeric_limits<float>::infinity());
    ASSERT_EQ(spacing(value, Number::f32), above - static_cast<double>(narrow)) << value;
  }
  for (const double value : {0.0, 1e-9, -0x1p-15}) {
    EXPECT_EQ(spacing(value, Number::f16), 0x1p-24) << value;
  }
}

TEST(Numbers, ReadsMemoryThatIsNotAligned) {
  std::vector<unsigned char> bytes(1 + 3 * sizeof(float));
  const float values[] = {1.5F, -2.25F, 1e-40F};
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  const Numbers numbers(bytes.data() + 1, 3, Number::f32);
  EXPECT_THAT(numbers.values(), ::testing::ElementsAre(1.5, -2.25, values[2]));
  EXPECT_EQ(numbers.part(1, 2)[0], -2.25);
}

TEST(Matrices, RowsAndShapes) {
  const Tensor tensor{{2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  const Matrix matrix = matrix_of(tensor);
  EXPECT_EQ(matrix.rows, 4);
  const std::vector<std::int64_t> rows{3, 0};
  EXPECT_THAT(rows_of(matrix, rows).data, ::testing::ElementsAre(9, 10, 11, 0, 1, 2));
  EXPECT_NO_THROW(require_matrix(matrix, 4, 3, "x"));
  EXPECT_THROW(require_matrix(matrix, 3, 4, "x"), std::invalid_argument);
}

TEST(Misfits, CountWhatIsFurtherOffThanItsBound) {
  Misfit misfit;
  misfit.add(0, 1, 1, 0);
  misfit.add(1, 1.5, 1, 1);
  EXPECT_TRUE(misfit.fits());
  EXPECT_EQ(misfit.worst, 0.5);
  misfit.add(2, 4, 1, 1);
  misfit.add(3, NAN, 1, 1);
  misfit.add(4, 1, NAN, kInfinity);
  EXPECT_EQ(misfit.wrong, 3);
  EXPECT_EQ(misfit.first, 2);
  EXPECT_EQ(misfit.worst, kInfinity);
  Misfit all{.judged = 10};
  all.add(misfit, 10);
  EXPECT_EQ(all.first, 12);
  EXPECT_EQ(all.judged, 15);
}

TEST(Namings, FormsOfOneLawAreOneLaw) {
  const Law a{"a", "one"};
  std::vector<LawFit> fitting{{a, {}, 1, "x"}, {{"b", "two"}, {}, 1, ""}, {a, {}, 1, "y"}};
  merge_forms(fitting);
  ASSERT_EQ(fitting.size(), 2u);
  EXPECT_EQ(fitting[0].detail, "x or y");
  EXPECT_EQ(fitting[1].law.name, "b");
}

TEST(Namings, ALawThatHoldsEverywhereIsStronger) {
  Naming naming{{.judged = 2, .wrong = 1, .first = 0, .worst = 9}, {}};
  EXPECT_EQ(naming.text(), "no known law");
  naming.fitting = {{{"a", "in part"}, {}, 0.5, {}}, {{"b", "everywhere"}, {}, 1, "factor 2"}};
  EXPECT_EQ(naming.text(), "no law alone: a, b");
  keep_the_strongest(naming.fitting);
  EXPECT_EQ(naming.text(), "b: everywhere (factor 2)");
  naming.fitting = {{{"a", "in part"}, {}, 0.5, {}}};
  keep_the_strongest(naming.fitting);
  EXPECT_NE(naming.alone(), nullptr);
}

}  // namespace
}  // namespace oracles::testing
