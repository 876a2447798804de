// From verdicts to one outcome; roles; what is expected of planted faults.
#include "harness/judge/judge.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "harness/judge/expectation.h"

namespace {

using harness::CheckResult;
using harness::Evidence;
using harness::Finding;
using harness::Outcome;
using harness::Role;
using harness::Verdict;

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
    {"crash", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "CRASH.EXCEPTION"); }},
    {"hang", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "HANG.COLLECTIVE"); }},
    {"slow", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "SLOW.HOST"); }},
    {"oom", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "OOM.HOST"); }},
    {"infra", "", {}, [](const Evidence&) { return result_of(Verdict::fail, "INFRA.CLOCK"); }},
    {"peeks", "", {}, [](const Evidence& e) {
       const harness::Scenario& s = e.the_case.scenario;
       const bool told = s.fault || s.expect || s.known || !s.name.empty() || !s.text.empty() ||
                         !e.faults_fired.empty();
       return result_of(told ? Verdict::fail : Verdict::pass);
     }}};

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
  EXPECT_EQ(outcome_of({"infra"}), Outcome::error);
  EXPECT_EQ(outcome_of({"crash", "hang", "missing"}), Outcome::fail);
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

TEST(Judge, OrdersFindingsAndTellsVerdictsTheirRoles) {
  const auto judged = harness::judge(case_with({"crash", "hang", "missing"}), kChecks);
  ASSERT_EQ(judged.findings.size(), 3U);
  EXPECT_EQ(judged.findings[0].code, "GRAD.MISSING");
  EXPECT_EQ(judged.findings[0].role, Role::initiating);
  EXPECT_EQ(judged.findings[1].role, Role::cascade);
  EXPECT_EQ(judged.verdicts[2].findings[0].role, Role::initiating);
  EXPECT_EQ(judged.verdicts[0].findings[0].role, Role::cascade);
}

// ---- roles -----------------------------------------------------------------------------------------------------------------

std::string initiating(std::vector<Finding> findings) {
  harness::assign_roles(findings);
  std::string code;
  int count = 0;
  for (const Finding& finding : findings) {
    if (finding.role != Role::initiating) continue;
    code = finding.code;
    ++count;
  }
  return count == 1 ? code : "none or several";
}

TEST(Roles, FollowTheOrderOfKinds) {
  const std::vector<std::string> order = {
      "INFRA.CLOCK",       "CRASH.SIGNAL",   "RESUME.DIVERGED",  "DATA.DUPLICATE",
      "ROUTE.MISMATCH",    "MASK.ALIGNMENT", "LOSS.BELOW_FLOOR", "GRAD.MISSING",
      "GRAD.DOUBLE_READY", "COMM.EXTRA",     "INPLACE.MODIFIED", "CKPT.GRADIENT",
      "NUMERIC.GRADIENT",  "DESYNC.SIZE",    "GRAD.SCALE",       "GRAD.NOT_REDUCED",
      "OPT.SKIPPED",       "STATE.DIVERGED", "HANG.COLLECTIVE",  "CRASH.EXCEPTION"};
  for (std::size_t first = 0; first < order.size(); ++first) {
    for (std::size_t later = first + 1; later < order.size(); ++later) {
      EXPECT_EQ(initiating({finding_of(order[later]), finding_of(order[first])}), order[first])
          << order[later];
      EXPECT_EQ(initiating({finding_of(order[first]), finding_of(order[later])}), order[first])
          << order[later];
    }
  }
}

TEST(Roles, AnEarlierStepComesFirst) {
  EXPECT_EQ(initiating({finding_of("GRAD.MISSING", {}, 3), finding_of("STATE.DIVERGED", {}, 2)}),
            "STATE.DIVERGED");
  EXPECT_EQ(
      initiating({finding_of("CRASH.SIGNAL", {}, std::nullopt), finding_of("GRAD.MISSING", {}, 1)}),
      "CRASH.SIGNAL");
}

TEST(Roles, AWrongGradientFollowsFromWhatWasComputedAgain) {
  for (const char* code : {"CKPT.DTYPE", "CKPT.SELECTION_FLIP", "INPLACE.MODIFIED"}) {
    std::vector<Finding> findings = {finding_of("NUMERIC.GRADIENT", {2}, 1),
                                     finding_of(code, {1}, 1)};
    harness::assign_roles(findings);
    EXPECT_EQ(findings[0].role, Role::cascade) << code;
    EXPECT_EQ(findings[1].role, Role::initiating) << code;
  }
  EXPECT_EQ(initiating({finding_of("CKPT.GRADIENT", {1}, 1), finding_of("GRAD.DOUBLE_READY")}),
            "GRAD.DOUBLE_READY");
  // Where only the gradients tell: what names the operator knows more than what names the layer, and that more than no layer.
  Finding guessed = finding_of("CKPT.GRADIENT", {1}, 1);
  guessed.status = harness::Status::hypothesis;
  guessed.site.op = "checkpoint";
  Finding named = finding_of("NUMERIC.GRADIENT", {1}, 1);
  named.site.branch = "sel";
  named.site.param = "W_V_sel";
  EXPECT_EQ(initiating({guessed, named}), "NUMERIC.GRADIENT");
  EXPECT_EQ(initiating({guessed, finding_of("NUMERIC.GRADIENT", {1}, 1)}), "CKPT.GRADIENT");
  std::vector<Finding> findings = {guessed, finding_of("NUMERIC.GRADIENT", {1}, 1)};
  harness::assign_roles(findings);
  EXPECT_EQ(findings[1].role, Role::cascade);
}

TEST(Roles, AResumptionExplainsWhatDiffersFromItsStepOn) {
  EXPECT_EQ(initiating({finding_of("NUMERIC.GRADIENT", {}, 3),
                        finding_of("RESUME.DIVERGED", {}, 3),
                        finding_of("DATA.SOURCE", {}, 3)}),
            "RESUME.DIVERGED");
  EXPECT_EQ(initiating({finding_of("MASK.ABSENT", {1}, 1), finding_of("RESUME.DIVERGED", {}, 3)}),
            "MASK.ABSENT");
  // A loss below its floor is seen late and was so from the start.
  EXPECT_EQ(
      initiating({finding_of("NUMERIC.GRADIENT", {}, 1), finding_of("LOSS.BELOW_FLOOR", {}, 90)}),
      "LOSS.BELOW_FLOOR");
}

TEST(Roles, AStoppedProcessIsASignalAndAnUncalledBackwardAConsequence) {
  Finding stopped = finding_of("HANG.HOST", {}, 5);
  stopped.site.detail["state"] = "T";
  EXPECT_EQ(initiating({finding_of("DESYNC.MISSING_RANK"), stopped}), "HANG.HOST");
  Finding route = finding_of("ROUTE.MISMATCH", {}, std::nullopt);
  route.site.phase = "backward";
  EXPECT_EQ(initiating({route, finding_of("GRAD.MISSING")}), "GRAD.MISSING");
  Finding sum = finding_of("NUMERIC.GRADIENT");
  sum.site.op = "grad_sync";
  EXPECT_EQ(initiating({sum, finding_of("GRAD.NOT_REDUCED")}), "GRAD.NOT_REDUCED");
}

TEST(Roles, WhatACheckSaidStays) {
  std::vector<Finding> findings = {finding_of("CRASH.EXCEPTION"), finding_of("CRASH.SIGNAL")};
  findings[0].role = Role::cascade;
  findings[1].role = Role::teardown;
  harness::assign_roles(findings);
  EXPECT_EQ(findings[0].role, Role::cascade);
  EXPECT_EQ(findings[1].role, Role::teardown);
}

Finding at_op(const std::string& code, const std::string& op, int layer = 1) {
  Finding finding = finding_of(code, {layer});
  finding.site.op = op;
  return finding;
}

TEST(Roles, OfOneLayerWhatExplainsMostComesFirst) {
  const std::vector<Finding> order = {at_op("ALIAS.MUTATED", "select"),
                                      at_op("NAN.UNINIT", "attend_sel"),
                                      at_op("MASK.ABSENT", "attend_win"),
                                      at_op("CAUSALITY.LEAK", "score"),
                                      at_op("SELECTION.WRONG", "score"),
                                      at_op("CAUSALITY.LEAK", "attend_win"),
                                      at_op("NUMERIC.FORWARD", "attend_win")};
  for (std::size_t first = 0; first < order.size(); ++first) {
    for (std::size_t later = first + 1; later < order.size(); ++later) {
      for (std::vector<Finding> findings : {std::vector<Finding>{order[first], order[later]},
                                            std::vector<Finding>{order[later], order[first]}}) {
        const bool is_first =
            findings[0].code == order[first].code && findings[0].site.op == order[first].site.op;
        harness::assign_roles(findings);
        EXPECT_EQ(findings[is_first ? 0 : 1].role, Role::initiating) << first << " " << later;
        EXPECT_EQ(findings[is_first ? 1 : 0].role, Role::cascade) << first << " " << later;
      }
    }
  }
  EXPECT_EQ(initiating({at_op("GATE.OVERRIDE", "gate"), at_op("MASK.ABSENT", "attend_win")}),
            "GATE.OVERRIDE");
  EXPECT_EQ(initiating({at_op("CAUSALITY.LEAK", "attend_win"), at_op("RANGE.INVALID", "select")}),
            "RANGE.INVALID");
  Finding explained = at_op("NUMERIC.FORWARD", "attend_cmp");
  explained.site.detail["law"] = "finite_sentinel";
  EXPECT_EQ(initiating({at_op("CAUSALITY.LEAK", "attend_cmp"), explained}), "NUMERIC.FORWARD");
  EXPECT_EQ(initiating({at_op("GRAD.ZERO", ""), at_op("GATE.DEAD", "gate")}), "GATE.DEAD");
  // In another layer nothing follows from it.
  std::vector<Finding> apart = {at_op("NUMERIC.FORWARD", "gate", 2),
                                at_op("MASK.ABSENT", "attend_win", 1)};
  harness::assign_roles(apart);
  EXPECT_EQ(apart[0].role, Role::unknown);
}

TEST(Roles, WhatCannotFollowIsUnknown) {
  std::vector<Finding> findings = {finding_of("DATA.DUPLICATE", {}, 3),
                                   finding_of("MASK.ABSENT", {1}, 3),
                                   finding_of("MASK.POLARITY", {2}, 3)};
  harness::assign_roles(findings);
  EXPECT_EQ(findings[0].role, Role::initiating);
  findings = {finding_of("MASK.ABSENT", {1}, 3), finding_of("SELECTION.WRONG", {2}, 3)};
  harness::assign_roles(findings);
  EXPECT_EQ(findings[1].role, Role::unknown);
}

// ---- sites -----------------------------------------------------------------------------------------------------------------

harness::Site site(const char* json) {
  return nlohmann::json::parse(json).get<harness::Site>();
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
