// From verdicts to one outcome; what is expected of planted faults.
#include "harness/judge/judge.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/hosts.h"
#include "harness/judge/asked.h"
#include "harness/judge/expectation.h"
#include "harness/scenario/experiment.h"

namespace {

using harness::CheckResult;
using harness::Evidence;
using harness::Finding;
using harness::Outcome;
using harness::Role;
using harness::Verdict;
using testing::EndsWith;

Finding finding_of(const std::string& code,
                   std::vector<int> layers = {},
                   std::optional<std::int64_t> step = 1) {
  Finding finding;
  finding.code = code;
  finding.site.layers = std::move(layers);
  finding.site.step = step;
  finding.statement = "what happened";
  return finding;
}

CheckResult result_of(Verdict verdict, const std::string& code = "") {
  CheckResult result;
  result.verdict = verdict;
  result.reason = "because";
  if (!code.empty()) result.findings.push_back(finding_of(code));
  return result;
}

const std::vector<harness::Check> kChecks = {
    {"passes", "", {}, [](const Evidence&) { return result_of(Verdict::pass); }},
    {"lacks", "", {}, [](const Evidence&) { return result_of(Verdict::inconclusive); }},
    {"throws", "", {}, [](const Evidence&) -> CheckResult { throw std::runtime_error("oops"); }},
    {"fails", "", {}, [](const Evidence&) { return result_of(Verdict::fail); }},
    {"missing", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "GRAD.MISSING"); }},
    {"crash",
     "",
     {},
     [](const Evidence&) {
       CheckResult result = result_of(Verdict::fail, "CRASH.EXCEPTION");
       result.findings[0].variant = "reducer";
       return result;
     }},
    {"hang", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "HANG.COLLECTIVE"); }},
    {"slow", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "SLOW.HOST"); }},
    {"of processes",
     "",
     {},
     [](const Evidence&) { return result_of(Verdict::pass); },
     harness::kWatchProcesses},
    {"levels_agree",
     "",
     {},
     [](const Evidence&) { return result_of(Verdict::fail, "OBSERVER.EFFECT"); },
     harness::kWatchProcesses},
    {"oom", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "OOM.HOST"); }},
    {"peeks", "", {}, [](const Evidence& e) {
       const harness::Scenario& s = e.the_case.scenario;
       const bool told = s.fault || s.expect || s.known || !s.name.empty() || !s.text.empty() ||
                         !e.faults_fired.empty();
       return result_of(told ? Verdict::fail : Verdict::pass);
     }}};

const auto passes = kChecks[0].judge;
const auto lacks = kChecks[1].judge;

Evidence case_with(std::vector<std::string> checks) {
  Evidence evidence;
  evidence.the_case.scenario.checks = std::move(checks);
  return evidence;
}

void plant(Evidence& evidence, std::int64_t fired) {
  evidence.the_case.scenario.name = "averaged_twice";
  evidence.the_case.scenario.text = "fault: {name: averaged_twice}";
  evidence.the_case.scenario.fault = harness::FaultRequest{};
  evidence.the_case.scenario.fault->name = "averaged_twice";
  if (fired > 0) evidence.faults_fired.push_back({1, 5, {fired}});
}

Outcome outcome_of(std::vector<std::string> checks) {
  return harness::judge(case_with(std::move(checks)), kChecks).outcome;
}

TEST(Judge, DerivesTheOutcome) {
  EXPECT_EQ(outcome_of({"passes"}), Outcome::pass);
  EXPECT_EQ(outcome_of({}), Outcome::inconclusive);
  EXPECT_EQ(outcome_of({"passes", "lacks"}), Outcome::inconclusive);
  EXPECT_EQ(outcome_of({"passes", "throws"}), Outcome::inconclusive);
  EXPECT_EQ(outcome_of({"passes", "nobody knows it"}), Outcome::inconclusive);
  EXPECT_EQ(outcome_of({"lacks", "fails"}), Outcome::fail);
  EXPECT_EQ(outcome_of({"missing"}), Outcome::fail);
  EXPECT_EQ(outcome_of({"crash"}), Outcome::crash);
  EXPECT_EQ(outcome_of({"hang"}), Outcome::hang);
  EXPECT_EQ(outcome_of({"slow"}), Outcome::slow);
  EXPECT_EQ(outcome_of({"oom"}), Outcome::oom);
  EXPECT_EQ(outcome_of({"crash", "hang", "missing"}), Outcome::fail);
}

TEST(Judge, WhatIsStoppedWhileItIsJudgedHasNoVerdict) {
  Evidence evidence = case_with({"fails", "passes"});
  evidence.the_case.scenario.expect = harness::Expectation{Outcome::fail, "", {}};
  int asked = 0;
  const auto judged = harness::judge(evidence, kChecks, [&] { return ++asked == 2; });
  EXPECT_EQ(judged.outcome, Outcome::inconclusive);
  EXPECT_EQ(judged.reason, "interrupted while it was judged");
  EXPECT_TRUE(judged.verdicts.empty() && judged.findings.empty());
}

TEST(Judge, AsksNoCheckWhoseEvidenceTheLevelLeavesOut) {
  Evidence evidence = case_with({"of processes", "fails", "passes"});
  evidence.the_case.scenario.observe = harness::kWatchEvents;
  const auto judged = harness::judge(evidence, kChecks);
  EXPECT_EQ(judged.outcome, Outcome::pass);
  ASSERT_EQ(judged.verdicts.size(), 1U);
  EXPECT_EQ(judged.reason, "1 check passed; not asked at observe 1: fails, passes");
  EXPECT_FALSE(harness::is_fully_asked(evidence.the_case.scenario, judged));
  evidence.the_case.scenario.checks = {"of processes"};
  EXPECT_TRUE(
      harness::is_fully_asked(evidence.the_case.scenario, harness::judge(evidence, kChecks)));
  evidence.the_case.scenario.checks = {"passes"};
  const auto none = harness::judge(evidence, kChecks);
  EXPECT_EQ(none.outcome, Outcome::inconclusive);
  EXPECT_EQ(none.reason, "nothing was judged: not asked at observe 1: passes");
}

// Without the two lines nothing is known of a command but its end.
TEST(Judge, APassOnACommandSaysWhatWasLookedAt) {
  Evidence evidence = case_with({"process_clean", "steps_agree", "passes"});
  evidence.the_case.scenario.kind = harness::kCommandKind;
  const std::vector<harness::Check> checks = {{"process_clean", "", {}, passes},
                                              {"steps_agree", "", {}, passes},
                                              {"passes", "", {}, passes}};
  const auto outside = harness::judge(evidence, checks);
  EXPECT_EQ(outside.outcome, Outcome::pass);
  EXPECT_EQ(outside.reason, "ended by itself; weights, gradients and NaN were not looked at");
  EXPECT_FALSE(harness::is_fully_asked(evidence.the_case.scenario, outside));
  EXPECT_TRUE(harness::is_seen_from_outside(evidence.the_case.scenario, outside));
  evidence.hellos.push_back({0, 1, harness::Hello{}});
  const auto inside = harness::judge(evidence, checks);
  EXPECT_EQ(inside.reason, inside.verdicts[1].reason + "; 3 checks passed");
  EXPECT_TRUE(harness::is_fully_asked(evidence.the_case.scenario, inside));
}

TEST(Judge, OfACommandThatStartedItsRanksAgainTheLastLifeIsJudgedAndAllAreTold) {
  const std::vector<harness::Check> checks = {{"process_clean", "", {}, [](const Evidence& seen) {
                                                 return result_of(seen.exited.empty()
                                                                      ? Verdict::pass
                                                                      : Verdict::fail,
                                                                  seen.exited.empty()
                                                                      ? ""
                                                                      : "CRASH.EXCEPTION");
                                               }}};
  Evidence evidence = case_with({"process_clean"});
  evidence.the_case.scenario.kind = harness::kCommandKind;
  evidence.hellos.push_back({0, 30, {}});
  evidence.exited.push_back({harness::kController, 5, {}});
  EXPECT_EQ(harness::judge(evidence, checks).outcome, Outcome::crash);
  evidence.relaunches.push_back({harness::kController, 10, {1, "rank 1 exited with 1"}});
  evidence.relaunches.push_back({harness::kController, 15, {2, harness::Relaunched::kWell}});
  evidence.relaunches.push_back({harness::kController, 20, {3, "rank 0 exited with 3"}});
  const harness::Judgement good = harness::judge(evidence, checks);
  EXPECT_EQ(good.outcome, Outcome::pass) << good.reason;
  const std::string lives =
      "before that, the launcher had started the ranks again after rank 1 exited with 1, then "
      "after rank 0 exited with 3";
  EXPECT_THAT(good.reason, testing::HasSubstr(lives));
  EXPECT_THAT(good.verdicts[0].reason, testing::HasSubstr(lives));
  evidence.exited.push_back({harness::kController, 25, {}});
  const harness::Judgement bad = harness::judge(evidence, checks);
  EXPECT_EQ(bad.outcome, Outcome::crash);
  EXPECT_THAT(bad.findings[0].statement, testing::HasSubstr("after rank 0 exited with 3"));
}

TEST(Judge, AThreadThatDiedInACommandThatEndedWellIsTold) {
  const std::vector<harness::Check> checks = {
      {"process_clean", "", {}, [](const Evidence&) { return result_of(Verdict::pass, ""); }}};
  Evidence evidence = case_with({"process_clean"});
  evidence.the_case.scenario.kind = harness::kCommandKind;
  evidence.facts.push_back({0, 5, {harness::kThreadDiedFact, "KeyError: 'shard'"}});
  const harness::Judgement judged = harness::judge(evidence, checks);
  EXPECT_EQ(judged.outcome, Outcome::pass);
  EXPECT_THAT(judged.reason,
              testing::HasSubstr(
                  "a thread of rank 0 ended by KeyError: 'shard', and the process went on"));
}

TEST(Judge, SaysAReasonThatSeveralChecksGiveOnce) {
  const std::vector<harness::Check> checks = {{"a", "", {}, lacks}, {"b", "", {}, lacks}};
  const auto judged = harness::judge(case_with({"a", "b"}), checks);
  EXPECT_EQ(judged.reason, "a, b: " + judged.verdicts[0].reason);
}

TEST(Judge, ExpectsOfSeveralLevelsWhatTheLastOneShows) {
  Evidence evidence = case_with({"passes", "levels_agree"});
  plant(evidence, 1);
  evidence.the_case.scenario.expect = harness::Expectation{Outcome::fail, "OBSERVER.EFFECT", {}};
  const auto first = harness::judge(evidence, kChecks);
  EXPECT_EQ(first.outcome, Outcome::pass) << "what was planted shows where levels are compared";
  EXPECT_TRUE(harness::is_compared_later(evidence.the_case.scenario, first));
  evidence.other_levels.push_back({harness::kController, 1, {}});
  const auto last = harness::judge(evidence, kChecks);
  EXPECT_EQ(last.outcome, Outcome::pass);
  EXPECT_EQ(last.reason.rfind("as expected: FAIL", 0), 0U) << last.reason;
  evidence.the_case.scenario.expect->code = "GRAD.MISSING";
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
}

TEST(Judge, KeepsTheOrderOfTheScenario) {
  const auto judged =
      harness::judge(case_with({"fails", "throws", "nobody knows it", "passes"}), kChecks);
  ASSERT_EQ(judged.verdicts.size(), 4U);
  EXPECT_EQ(judged.verdicts[0].check, "fails");
  EXPECT_NE(judged.verdicts[1].reason.find("oops"), std::string::npos);
  EXPECT_EQ(judged.verdicts[2].check, "nobody knows it");
  EXPECT_EQ(judged.verdicts[3].verdict, Verdict::pass);
}

TEST(Judge, ShowsNoCheckWhatWasPlanted) {
  Evidence evidence = case_with({"peeks"});
  plant(evidence, 3);
  evidence.the_case.scenario.expect = harness::Expectation{Outcome::pass, "", {}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
  evidence.the_case.scenario.known =
      harness::KnownFailure{{{"model.w", "8"}}, Outcome::fail, "", "because", "2027-01-31"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::xpass);
}

TEST(Judge, AFaultThatNeverFiredIsAnError) {
  Evidence evidence = case_with({"missing"});
  plant(evidence, 0);
  evidence.faults_fired.push_back({0, 5, {0}});
  evidence.faults_fired.push_back({harness::kTwin, 5, {7}});
  evidence.the_case.scenario.expect = harness::Expectation{Outcome::fail, "GRAD.MISSING", {}};
  const auto judged = harness::judge(evidence, kChecks);
  EXPECT_EQ(judged.outcome, Outcome::error);
  EXPECT_EQ(judged.reason, "fault averaged_twice never fired");
}

TEST(Judge, ComparesWithWhatIsExpected) {
  Evidence evidence = case_with({"missing", "crash"});
  plant(evidence, 1);
  auto& expect = evidence.the_case.scenario.expect;
  expect = harness::Expectation{Outcome::fail, "GRAD.ZERO or GRAD.MISSING", {}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
  expect->code = "GRAD.ZERO";
  const auto missed = harness::judge(evidence, kChecks);
  EXPECT_EQ(missed.outcome, Outcome::fail);
  EXPECT_NE(missed.reason.find("expected FAIL GRAD.ZERO"), std::string::npos) << missed.reason;
  EXPECT_NE(missed.reason.find("saw FAIL GRAD.MISSING"), std::string::npos) << missed.reason;
  expect = harness::Expectation{Outcome::crash, "", {}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
  expect = harness::Expectation{std::nullopt, "", {}};
  expect->site.step = 2;
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
  expect->site.step = 1;
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
}

TEST(Judge, AKillThatNeverHappenedIsAnErrorOfWhatDidNotFail) {
  Evidence evidence = case_with({"passes"});
  evidence.the_case.scenario.life.kill_step = 3;
  const auto judged = harness::judge(evidence, kChecks);
  EXPECT_EQ(judged.outcome, Outcome::error);
  EXPECT_EQ(judged.reason,
            "the kill in step 3, phase backward, never happened: the ranks had ended before");
  evidence.the_case.scenario.checks = {"passes", "lacks"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::error);
  evidence.the_case.scenario.checks = {"crash"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::crash);
  evidence.the_case.scenario.checks = {"passes"};
  evidence.relaunches.push_back({harness::kController, 5, {1, "killed"}});
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
}

TEST(Judge, AKnownFailureIsExpectedAsItIsKnown) {
  Evidence evidence = case_with({"missing"});
  auto& known = evidence.the_case.scenario.known;
  known = harness::KnownFailure{
      {{"model.w", "8"}}, Outcome::fail, "GRAD.ZERO or GRAD.MISSING", "it is so", "2027-01-31"};
  const auto judged = harness::judge(evidence, kChecks);
  EXPECT_EQ(judged.outcome, Outcome::xfail);
  EXPECT_EQ(judged.reason.rfind("it is so (known until 2027-01-31; GRAD.MISSING", 0), 0u)
      << judged.reason;
  EXPECT_EQ(judged.findings.size(), 1u) << "what was found is told all the same";
  known->code = "GRAD.ZERO";
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail) << "another failure";
  known->code = "";
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::xfail);
  known->outcome = Outcome::crash;
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
  evidence.the_case.scenario.checks = {"lacks"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::inconclusive);
  evidence.the_case.scenario.checks = {"passes"};
  const auto passed = harness::judge(evidence, kChecks);
  EXPECT_EQ(passed.outcome, Outcome::xpass);
  EXPECT_EQ(passed.reason, "passed, but is known to fail until 2027-01-31: it is so");
  evidence.stopped.push_back({harness::kController, 9, {"interrupted", "", 9}});
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::inconclusive);
}

TEST(Judge, TrialsOfABisectionAreNotComparedWithWhatIsExpectedOfIt) {
  Evidence evidence = case_with({"passes"});
  plant(evidence, 0);
  harness::Scenario& scenario = evidence.the_case.scenario;
  scenario.expect = harness::Expectation{Outcome::fail, "GRAD.MISSING", {}};
  scenario.bisect = {"parallel.checkpoint.layers", {"0", "1"}};
  evidence.the_case.point = {{"parallel.checkpoint.layers", "[1]"}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass)
      << "there was nothing for the fault to do";
  evidence.the_case.point = {{"parallel.checkpoint.layers", "[0, 1]"}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::error) << "there was";
  plant(evidence, 1);
  scenario.checks = {"crash"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::crash);
}

TEST(Judge, AnInterruptedCaseIsNotJudgedAsPass) {
  Evidence evidence = case_with({"passes"});
  evidence.stopped.push_back({harness::kController, 9, {"interrupted", "", 9}});
  const auto judged = harness::judge(evidence, kChecks);
  EXPECT_EQ(judged.outcome, Outcome::inconclusive);
  EXPECT_EQ(judged.reason, "interrupted");
}

// A training of the user's writes its snapshots where it likes; the record is elsewhere, and whole.
TEST(Judge, AFullDiskOfTheUsersIsAFailureOfTheirCommand) {
  Evidence evidence = case_with({"crash"});
  evidence.errors.push_back({0, 0, {"OSError", "[Errno 28] No space left on device", "", 1}});
  EXPECT_EQ(judge(evidence, kChecks).outcome, Outcome::error);
  evidence.hellos.push_back({0, 0, {}});  // else only its end is judged
  for (const char* kind : {harness::kCommandKind, harness::kKernelKind}) {
    evidence.the_case.scenario.kind = kind;
    EXPECT_EQ(judge(evidence, kChecks).outcome, Outcome::crash) << kind;
  }
  evidence.facts.push_back(
      {harness::kController, 0, harness::Fact{harness::kDiskFullFact, "0 bytes left"}});
  EXPECT_EQ(judge(evidence, kChecks).outcome, Outcome::error) << "the record's own disk";
}

TEST(Judge, OrdersFindingsAndTellsVerdictsTheirRoles) {
  const auto judged = harness::judge(case_with({"crash", "hang", "missing"}), kChecks);
  ASSERT_EQ(judged.findings.size(), 3U);
  EXPECT_EQ(judged.findings[0].code, "GRAD.MISSING");
  EXPECT_EQ(judged.findings[0].role, Role::initiating);
  EXPECT_EQ(judged.findings[1].role, Role::cascade);
  EXPECT_EQ(judged.findings[1].follows, judged.findings[0].number);
  EXPECT_EQ(judged.verdicts[2].findings[0].role, Role::initiating);
  EXPECT_EQ(judged.verdicts[0].findings[0].role, Role::cascade);
  EXPECT_EQ(judged.verdicts[0].findings[0].check, "crash");
}

TEST(Judge, TellsHowManyCausesAreIndependent) {
  const auto judged = harness::judge(case_with({"oom", "slow"}), kChecks);
  EXPECT_EQ(judged.outcome, Outcome::oom);
  EXPECT_THAT(judged.reason, EndsWith("(1 of 2 independent causes)"));
}

TEST(Judge, APlantedFaultThatNothingNoticesIsAnError) {
  Evidence evidence = case_with({"passes"});
  plant(evidence, 3);
  auto judged = harness::judge(evidence, kChecks);
  EXPECT_EQ(judged.outcome, Outcome::error);
  EXPECT_EQ(judged.reason,
            "fault averaged_twice was planted and acted, and no check noticed it: passes");
  // One that is expected to pass, or that something was said of, is told as it is.
  evidence.the_case.scenario.expect = harness::Expectation{Outcome::pass, "", {}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
  evidence.the_case.scenario.expect.reset();
  evidence.the_case.scenario.checks = {"missing"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
  evidence.the_case.scenario.checks = {"lacks"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::inconclusive);
  // A trial of a bisection is a step of a search.
  evidence.the_case.scenario.checks = {"passes"};
  evidence.the_case.scenario.bisect.over = "parallel.checkpoint.layers";
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
}

// In an experiment there may be nothing left that the fault could stand in, and then nothing is wrong.
TEST(Judge, AnExperimentIsJudgedAsIfNothingHadBeenPlanted) {
  Evidence evidence = case_with({"passes"});
  plant(evidence, 3);
  evidence.the_case.point.emplace_back(harness::kExperimentAxis, "without clipping");
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
  evidence.faults_fired.clear();
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass);
  evidence.the_case.scenario.checks = {"missing"};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
}

TEST(Judge, AnyInitiatingFindingMeetsTheExpectation) {
  Evidence evidence = case_with({"oom", "slow", "missing", "crash"});
  plant(evidence, 1);
  auto& expect = evidence.the_case.scenario.expect;
  for (const char* code : {"OOM.HOST", "SLOW.HOST", "GRAD.MISSING"}) {
    expect = harness::Expectation{std::nullopt, code, {}};
    EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::pass) << code;
  }
  // A consequence does not meet it, nor does the code of one finding with the site of another.
  expect = harness::Expectation{std::nullopt, "CRASH.EXCEPTION", {}};
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
  expect = harness::Expectation{std::nullopt, "SLOW.HOST", {}};
  expect->site.step = 2;
  EXPECT_EQ(harness::judge(evidence, kChecks).outcome, Outcome::fail);
}

TEST(Judge, TellsWhatCouldNotBeJudgedWithTheFindingThatIsTheReason) {
  const std::vector<harness::Check> checks = {
      {"forward",
       "",
       {},
       [](const Evidence&) {
         CheckResult result = result_of(Verdict::fail);
         result.findings = {finding_of("NUMERIC.FORWARD", {2})};
         result.findings[0].site.ranks = {0};
         harness::Site here;
         here.layers = {2};
         here.ranks = {0};
         harness::Site elsewhere = here;
         elsewhere.layers = {3};
         result.not_judged = {{"", "gradients", here}, {"", "others", elsewhere}};
         return result;
       }},
      {"crash",
       "",
       {},
       [](const Evidence&) {
         CheckResult result = result_of(Verdict::fail);
         result.findings = {finding_of("CRASH.SIGNAL")};
         result.findings[0].site.ranks = {1};
         return result;
       }},
      {"lacks", "", {}, [](const Evidence&) {
         CheckResult result = result_of(Verdict::inconclusive);
         harness::Site of_rank;
         of_rank.ranks = {1};
         result.not_judged = {{"", "rows of rank 1", of_rank}, {"", "the twin", {}}};
         return result;
       }}};
  const auto judged = harness::judge(case_with({"forward", "crash", "lacks"}), checks);
  ASSERT_EQ(judged.findings.size(), 2U);
  ASSERT_EQ(judged.findings[0].code, "CRASH.SIGNAL");
  ASSERT_EQ(judged.findings[0].not_judged.size(), 1U);
  EXPECT_EQ(judged.findings[0].not_judged[0].check, "lacks");
  EXPECT_EQ(judged.findings[0].not_judged[0].what, "rows of rank 1");
  ASSERT_EQ(judged.findings[1].not_judged.size(), 1U);
  EXPECT_EQ(judged.findings[1].not_judged[0].what, "gradients");
}

// ---- sites -----------------------------------------------------------------------------------------------------------------

harness::Site site(const char* text) {
  return nlohmann::json::parse(text).get<harness::Site>();
}

TEST(Sites, OnlyWhatIsWantedIsCompared) {
  const harness::Site seen = site(
      R"({"layers":[3,1],"branch":"sel","ranks":[1],"step":1,"rows":[1,2,3],"detail":{"factor":0.50001,"law":"x"}})");
  EXPECT_TRUE(harness::site_matches(site("{}"), seen));
  EXPECT_TRUE(harness::site_matches(
      site(R"({"layers":[1,3],"ranks":[1],"rows":[2],"detail":{"factor":0.5}})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"layers":[1]})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"ranks":[0,1]})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"rows":[4]})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"step":2})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"sequence":0})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"branch":"win"})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"detail":{"factor":2.0}})"), seen));
  EXPECT_FALSE(harness::site_matches(site(R"({"detail":{"other":1}})"), seen));
}

}  // namespace
