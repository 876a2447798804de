// What a planted fault is called must not be known to anything that judges: the same evidence under random names gives the
// same judgement.
#include <random>

#include <gtest/gtest.h>

#include "harness/judge/judge.h"
#include "tests/checks/planted.h"

namespace {

std::string random_name(std::mt19937& random) {
  std::string name;
  for (int i = 0; i < 12; ++i) name += static_cast<char>('a' + random() % 26);
  return name;
}

// The judgement without the sentence that tells a person which fault was planted.
nlohmann::json judged(harness::Evidence evidence, const std::string& check, std::string name) {
  harness::Scenario& scenario = evidence.the_case.scenario;
  scenario.checks = {check, "process_clean", "progress", "ran_route", "finite"};
  scenario.name = scenario.about = scenario.text = name;
  scenario.path = "/scenarios/faults/" + name + ".yaml";
  scenario.fault = harness::FaultRequest{};
  scenario.fault->name = name;
  evidence.the_case.point = {{"fault.name", name}};
  evidence.the_case.id = name;
  fixtures::put(evidence.faults_fired, 0, harness::FaultFired{9});
  const harness::Judgement judgement = harness::judge(evidence, harness::all_checks());
  return {{"outcome", harness::name_of(judgement.outcome)},
          {"verdicts", judgement.verdicts},
          {"findings", judgement.findings}};
}

TEST(Renamed, TheSameEvidenceGivesTheSameDiagnosisUnderAnyName) {
  std::mt19937 random(20261122);
  for (const fixtures::Planted& planted : fixtures::all_planted()) {
    // These take seconds; the tests of the checks try them under another name, one check at a time.
    if (fixtures::asks_the_oracle(planted.check)) continue;
    fixtures::Healthy healthy(planted.ranks, planted.steps, planted.kind);
    planted.spoil(healthy);
    // A random name, and one of a fault that would suggest something else.
    EXPECT_EQ(judged(healthy.evidence, planted.check, random_name(random)),
              judged(healthy.evidence, planted.check, "averaged_twice"))
        << planted.name;
  }
}

}  // namespace
