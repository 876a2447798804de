// A case from elsewhere: every name in it is known here, or the error says which is not.
#include "harness/scenario/known_names.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/where.h"

namespace {

using harness::Case;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<Case> shipped_cases(const std::string& name) {
  const auto options = fakes::scenario_options(fakes::tree());
  return harness::load_cases(
      fakes::tree() + "/scenarios/" + name + ".yaml", options, fakes::manifest());
}

std::string refusal_of_names(const Case& the_case) {
  const auto options = fakes::scenario_options(fakes::tree());
  return error_of([&] {
    harness::require_known_names(the_case, options.known_checks, fakes::manifest(), "f");
  });
}

TEST(KnownNames, ShippedCasesAreKnown) {
  for (const char* name : {"ddp_onestep", "faults/bypass_wrapper", "faults/gc_nested", "decode"}) {
    for (const Case& one : shipped_cases(name))
      EXPECT_EQ(refusal_of_names(one), "no error") << name;
  }
}

TEST(KnownNames, WhatIsNotKnownIsNamed) {
  const std::vector<std::pair<std::string, std::function<void(harness::Scenario&)>>> all = {
      {"kind", [](auto& scenario) { scenario.kind = "trainin"; }},
      {"check", [](auto& scenario) { scenario.checks.push_back("finit"); }},
      {"seam of route", [](auto& scenario) { scenario.route["sel"] = "reference"; }},
      {"implementation", [](auto& scenario) { scenario.route["select"] = "refrence"; }},
      {"fault", [](auto& scenario) { scenario.fault->name = "first_kex"; }},
      {"form", [](auto& scenario) { scenario.fault->form = "loud"; }}};
  for (const auto& [what, change] : all) {
    Case one = shipped_cases("faults/first_key").front();
    change(one.scenario);
    EXPECT_THAT(refusal_of_names(one), StartsWith("f: " + what)) << what;
  }
}

}  // namespace
