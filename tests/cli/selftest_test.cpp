// What a self-test runs, for every shipped fault: laws of the draws.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/paths.h"
#include "harness/cli/selftest/cases.h"
#include "nsa/base/error.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

using harness::Case;
using harness::cli::SelftestRequest;

const std::string kRoot = fakes::tree();

std::vector<std::string> shipped() {
  return harness::cli::scenario_files({kRoot + "/scenarios/faults"});
}

std::vector<Case> cases_of(const SelftestRequest& request) {
  return harness::cli::selftest_cases(request, fakes::scenario_options(kRoot), fakes::manifest());
}

SelftestRequest request_of(std::vector<std::string> files, std::uint64_t seed, int draws = 1) {
  SelftestRequest request;
  request.files = std::move(files);
  request.seed = seed;
  request.draws = draws;
  return request;
}

std::set<std::string> scenarios_of(const std::vector<Case>& cases) {
  std::set<std::string> names;
  for (const Case& one : cases) names.insert(one.scenario.name);
  return names;
}

TEST(SelftestCases, EveryFaultStandsBesideTheSameCaseWithoutIt) {
  const std::vector<Case> cases = cases_of(request_of(shipped(), 3, 2));
  ASSERT_GE(cases.size(), 4 * shipped().size());
  ASSERT_EQ(cases.size() % 2, 0U);
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    harness::Scenario planted = cases[i].scenario;
    EXPECT_TRUE(planted.fault && planted.expect) << cases[i].label();
    planted.fault.reset();
    planted.expect.reset();
    EXPECT_EQ(planted, cases[i + 1].scenario) << cases[i].label();
    EXPECT_NE(cases[i].id, cases[i + 1].id);
    EXPECT_NE(cases[i].label(), cases[i + 1].label());
  }
}

// Rows are expected exactly where the fault spoils all that its file names.
TEST(SelftestCases, RowsAreExpectedAtFullStrengthOnly) {
  const std::string file = kRoot + "/scenarios/faults/ranges_oob.yaml";
  bool full = false;
  bool thinned = false;
  for (const Case& one : cases_of(request_of({file}, 5, 16))) {
    if (!one.scenario.fault) continue;
    const bool is_full = one.scenario.fault->strength == 1.0;
    (is_full ? full : thinned) = true;
    EXPECT_EQ(one.scenario.expect->site.rows.empty(), !is_full) << one.label();
    EXPECT_FALSE(one.scenario.expect->site.layers.empty()) << "the place is expected all the same";
  }
  EXPECT_TRUE(full && thinned) << "of 16 draws";
}

TEST(SelftestCases, TheSeedDecidesEveryDraw) {
  std::vector<std::string> files = shipped();
  files.resize(12);  // to read all of them takes seconds
  const auto first = cases_of(request_of(files, 5, 2));
  EXPECT_EQ(first, cases_of(request_of(files, 5, 2)));
  EXPECT_NE(first, cases_of(request_of(files, 6, 2)));
  EXPECT_NE(first[0].id, first[2].id) << "two draws of one file";
}

// A drawn place must be there, must differ now and then, and must be what is expected of the finding.
TEST(SelftestCases, WhatAFileFixesIsDrawnAndExpectedThere) {
  const std::string file = kRoot + "/scenarios/faults/wrong_dv_scale.yaml";
  std::set<int> layers;
  std::set<double> strengths;
  const auto cases = cases_of(request_of({file}, 1, 40));
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    const harness::Scenario& scenario = cases[i].scenario;
    ASSERT_EQ(scenario.fault->layers.size(), 1U);
    EXPECT_EQ(scenario.expect->site.layers, scenario.fault->layers);
    EXPECT_LT(scenario.fault->layers.front(), scenario.model.n_layers);
    layers.insert(scenario.fault->layers.front());
    strengths.insert(scenario.fault->strength);
  }
  EXPECT_THAT(layers, testing::ElementsAre(0, 1, 2));
  EXPECT_LE(strengths.size(), 4U);
}

TEST(SelftestCases, AFaultThatNeedsALayerAboveIsNeverDrawnIntoTheLast) {
  const std::string file = kRoot + "/scenarios/faults/inplace_pack.yaml";
  const auto cases = cases_of(request_of({file}, 1, 40));
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    const harness::Scenario& scenario = cases[i].scenario;
    EXPECT_LT(scenario.fault->layers.front(), scenario.model.n_layers - 1);
  }
}

TEST(SelftestCases, PartsTogetherAreAllAndNoneTwice) {
  std::set<std::string> all;
  std::size_t sum = 0;
  for (int part = 1; part <= 3; ++part) {
    SelftestRequest request = request_of(shipped(), 9);
    request.part = part;
    request.parts = 3;
    const auto names = scenarios_of(cases_of(request));
    EXPECT_GT(names.size(), shipped().size() / 6) << "a part is about a third";
    sum += names.size();
    all.insert(names.begin(), names.end());
  }
  EXPECT_EQ(sum, all.size());
  EXPECT_EQ(all, scenarios_of(cases_of(request_of(shipped(), 9))));
}

TEST(SelftestCases, LargeModelsAreMadeSmallUnlessAskedFor) {
  SelftestRequest request = request_of(shipped(), 2);
  for (const Case& one : cases_of(request)) {
    EXPECT_LT(one.scenario.model.parameter_count(), 10'000'000) << one.label();
  }
  request.full_size = true;
  request.files = {kRoot + "/scenarios/faults/averaged_twice.yaml"};
  EXPECT_GT(cases_of(request).front().scenario.model.parameter_count(), 70'000'000);
}

TEST(SelftestCases, AScenarioWithoutAFaultIsRefused) {
  try {
    (void)cases_of(request_of({kRoot + "/scenarios/ddp_onestep.yaml"}, 1));
    FAIL() << "a self-test of nothing";
  } catch (const nsa::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("found no fault, wanted both fault and expect"));
  }
}

}  // namespace
