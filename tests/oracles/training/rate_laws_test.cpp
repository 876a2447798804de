// Learning rates of a run, and the laws that name wrong ones.
#include "oracles/training/rate_laws.h"

#include <vector>

#include <gtest/gtest.h>

namespace oracles::testing {
namespace {

TrainConfig train_config() {
  return {.lr = 3e-4, .max_norm = 1, .warmup = 5, .total = 40};
}

// Thirty steps from the first on; two were skipped after the third.
template <typename Rate>
std::vector<RecordedRate> recorded(Rate rate) {
  std::vector<RecordedRate> rates;
  for (std::int64_t n = 1; n <= 30; ++n) {
    const std::int64_t skipped = n > 3 ? 2 : 0;
    rates.push_back({n, skipped, rate(n, skipped)});
  }
  return rates;
}

TEST(RateLaws, RightRatesAreNamedByNone) {
  const auto rates =
      recorded([](std::int64_t n, std::int64_t) { return learning_rate(train_config(), n); });
  EXPECT_EQ(name_rates(train_config(), 3, rates).text(), "right");
}

TEST(RateLaws, EveryLawIsNamedAlone) {
  for (const Law& law : rate_laws()) {
    const auto rates = recorded([&](std::int64_t n, std::int64_t skipped) {
      return rate_under(law.name, train_config(), 3, n, skipped)
          .value_or(learning_rate(train_config(), n));
    });
    const Naming naming = name_rates(train_config(), 3, rates);
    ASSERT_NE(naming.alone(), nullptr) << law.name << " was told as " << naming.text();
    EXPECT_EQ(naming.alone()->law.name, law.name);
    EXPECT_EQ(naming.alone()->share, 1);
  }
}

TEST(RateLaws, RatesKeptInFloat32) {
  const auto rates = recorded([](std::int64_t n, std::int64_t) {
    return static_cast<double>(static_cast<float>(learning_rate(train_config(), n)));
  });
  EXPECT_FALSE(name_rates(train_config(), 1, rates).right.fits());
  EXPECT_TRUE(name_rates(train_config(), 1, rates, 0x1p-24).right.fits());
}

// One step within the warm-up is a step of another number just as well.
TEST(RateLaws, OneStepLeavesSeveralLaws) {
  const std::vector<RecordedRate> one{{2, 1, learning_rate(train_config(), 3)}};
  EXPECT_EQ(name_rates(train_config(), 1, one).text(),
            "no law alone: lr_of_next_step, lr_counts_skipped");
  EXPECT_THROW((void)rate_under("none", train_config(), 1, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
