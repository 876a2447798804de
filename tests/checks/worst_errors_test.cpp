#include "harness/checks/attention/accuracy/worst_errors.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace {

using harness::checks::WorstErrors;

TEST(WorstErrors, KeepTheShareOfTheLimitAndNotTheError) {
  WorstErrors errors;
  errors.take({{"o", {2.0, 8.0}}, {"lse", {0.1, 1.0}}});
  errors.take({{"o", {3.0, 30.0}}, {"lse", {0.05, 0.1}}});
  EXPECT_EQ(errors.nearest(), "lse (0.5 of it)");
  harness::checks::ResultBuilder result;
  errors.put_measured(result);
  const auto measured = result.finish("").measured;
  ASSERT_EQ(measured.size(), 2U);
  EXPECT_EQ(measured[0].name, "relative_error_lse");
  EXPECT_EQ(measured[0].value, 0.05);
  EXPECT_EQ(measured[1].name, "relative_error_o");
  EXPECT_EQ(measured[1].value, 2.0);
}

TEST(WorstErrors, ANumberThatIsNoneStays) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  WorstErrors errors;
  errors.take({{"o", {0.5, 1.0}}});
  errors.take({{"o", {nan, 1.0}}});
  errors.take({{"o", {100.0, 1.0}}, {"y", {100.0, 1.0}}});
  harness::checks::ResultBuilder result;
  errors.put_measured(result);
  EXPECT_TRUE(std::isnan(result.finish("").measured[0].value));
  EXPECT_EQ(errors.nearest().substr(0, 2), "o ");
}

}  // namespace
