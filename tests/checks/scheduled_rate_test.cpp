#include "harness/checks/training/scheduled_rate.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

namespace harness::checks {
namespace {

nsa::OptimizerConfig short_schedule() {
  nsa::OptimizerConfig config;
  config.lr = 3e-4;
  config.warmup = 4;
  config.total = 12;
  return config;
}

// From step 6 to the end and beyond.
std::string law_of(const std::function<double(std::int64_t)>& found) {
  std::vector<AppliedRate> rates;
  for (std::int64_t step = 6; step <= 14; ++step) rates.push_back({step, step, found(step)});
  const RateLaw law = explain_rates(short_schedule(), 3, rates);
  return law.name + (law.fitted ? ", fitted" : "");
}

TEST(RateLaw, WarmsUpAndFallsToZero) {
  const auto config = short_schedule();
  EXPECT_DOUBLE_EQ(scheduled_rate(config, 1), config.lr / 4.0);
  EXPECT_DOUBLE_EQ(scheduled_rate(config, 4), config.lr);
  EXPECT_DOUBLE_EQ(scheduled_rate(config, 5), config.lr);
  EXPECT_DOUBLE_EQ(scheduled_rate(config, 9), config.lr / 2.0);
  EXPECT_EQ(scheduled_rate(config, 13), 0.0);
  EXPECT_EQ(scheduled_rate(config, 100), 0.0);
}

TEST(RateLaw, TellsWhatGivesTheRates) {
  const auto config = short_schedule();
  const auto right = [=](std::int64_t step) { return scheduled_rate(config, step); };
  EXPECT_EQ(law_of([](std::int64_t) { return 0.0; }), "zero");
  EXPECT_EQ(law_of([=](std::int64_t step) { return right(3 * step); }), "zero");  // long over
  EXPECT_EQ(law_of([=](std::int64_t) { return config.lr; }), "never_falls");
  EXPECT_EQ(law_of([=](std::int64_t step) { return std::max(1e-4, right(step)); }),
            "never_falls, fitted");
  EXPECT_EQ(law_of([=](std::int64_t step) { return 3e-5 + 0.9 * right(step); }),
            "never_falls, fitted");
  EXPECT_EQ(law_of([=](std::int64_t step) { return 1.001 * right(step); }), "");
  EXPECT_EQ(law_of([=](std::int64_t step) { return right(step - 1); }), "");
}

TEST(RateLaw, OneRateIsNoFloor) {
  EXPECT_EQ(explain_rates(short_schedule(), 1, {{9, 9, 2e-4}}).name, "");
}

TEST(RateLaw, CountsOfMicroBatches) {
  const auto config = short_schedule();
  for (const std::int64_t shift : {0, 2}) {
    std::vector<AppliedRate> rates;
    for (std::int64_t step = 2; step <= 6; ++step) {
      rates.push_back({step, step, scheduled_rate(config, 3 * step - shift)});
    }
    EXPECT_EQ(explain_rates(config, 3, rates).name, "micro_steps") << shift;
    EXPECT_EQ(explain_rates(config, 1, rates).name, "") << shift;
  }
}

}  // namespace
}  // namespace harness::checks
