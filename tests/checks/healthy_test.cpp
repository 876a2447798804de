// Every check passes on healthy evidence, whatever the number of ranks and steps.
#include <gtest/gtest.h>

#include "tests/checks/fixtures.h"

namespace {

class HealthyCase : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(HealthyCase, EveryCheckPasses) {
  const auto [ranks, steps] = GetParam();
  const fixtures::Healthy healthy(ranks, steps);
  for (const harness::Check& check : harness::all_checks()) {
    const harness::CheckResult result = fixtures::run(check.name, healthy.evidence);
    EXPECT_EQ(result.verdict, harness::Verdict::pass) << check.name << ": " << result.reason;
    EXPECT_TRUE(result.findings.empty()) << check.name;
    EXPECT_FALSE(result.reason.empty()) << check.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds,
    HealthyCase,
    testing::Values(std::pair{2, 1}, std::pair{2, 3}, std::pair{4, 2}, std::pair{1, 1}));

}  // namespace
