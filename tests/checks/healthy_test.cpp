// Every check passes on healthy evidence, whatever the number of ranks and steps.
#include <gtest/gtest.h>

#include "tests/checks/fixtures.h"

namespace {

struct World {
  int ranks;
  int steps;
  const char* kind;
};

class HealthyCase : public testing::TestWithParam<World> {};

TEST_P(HealthyCase, EveryCheckPasses) {
  const auto [ranks, steps, kind] = GetParam();
  const fixtures::Healthy healthy(ranks, steps, kind);
  for (const std::string& check : healthy.evidence.the_case.scenario.checks) {
    const harness::CheckResult result = fixtures::run(check, healthy.evidence);
    EXPECT_EQ(result.verdict, harness::Verdict::pass) << check << ": " << result.reason;
    EXPECT_TRUE(result.findings.empty()) << check;
    EXPECT_FALSE(result.reason.empty()) << check;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds,
                         HealthyCase,
                         testing::Values(World{2, 1, "training"},
                                         World{2, 3, "training"},
                                         World{4, 2, "training"},
                                         World{1, 1, "training"},
                                         World{1, 1, "attention"},
                                         World{1, 1, "decode"}));

}  // namespace
