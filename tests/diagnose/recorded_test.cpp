// Diagnoses computed from the rows of a run: which rows belong together, what was asked for, and what is told.
#include "harness/diagnose/recorded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/experiment.h"
#include "harness/store/bisection.h"
#include "tests/diagnose/worlds.h"

namespace fixtures {
namespace {

using harness::AskedDiagnosis;
using harness::CaseRecord;
using harness::RecordedDiagnosis;
using harness::RunRecord;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CaseRecord record_of(const Case& one, const Ran& ran) {
  CaseRecord record;
  record.run_id = 1;
  record.scenario = one.scenario.name;
  record.label = one.label();
  record.case_json = harness::case_to_json(one);
  record.seconds = 2.0;
  harness::Judgement judgement;
  judgement.outcome = ran.outcome;
  judgement.reason = ran.reason;
  for (const Cause& cause : ran.causes) {
    judgement.findings.emplace_back();
    judgement.findings.back().code = cause.code;
    judgement.findings.back().site = cause.site;
    judgement.findings.back().role = harness::Role::initiating;
  }
  record.judgement = judgement;
  return record;
}

// The case fails while static_graph is on; what a diagnosis asks for is run until it has no more to ask.
std::vector<CaseRecord> diagnosed_rows(const harness::Pairs& command) {
  const World world = [](const Scenario& scenario) {
    return scenario.parallel.static_graph ? failed(cause_at("GRAD.SCALE")) : passed();
  };
  std::vector<CaseRecord> rows = {record_of(rich_case(), world(rich_case().scenario))};
  while (true) {
    std::vector<const CaseRecord*> ran;
    for (const CaseRecord& row : rows) ran.push_back(&row);
    const auto diagnosis = harness::diagnosis_of(command, ran);
    if (!diagnosis || !diagnosis->next) return rows;
    rows.push_back(record_of(*diagnosis->next, world(diagnosis->next->scenario)));
  }
}

RunRecord run_that_asked(const harness::Pairs& command) {
  RunRecord run;
  run.provenance.command = command;
  return run;
}

const harness::Pairs kOfAll = {{harness::kDiagnoseOption, ""}};

TEST(RecordedDiagnosis, IsComputedFromTheRows) {
  const std::vector<CaseRecord> rows = diagnosed_rows(kOfAll);
  ASSERT_GT(rows.size(), 5U);
  const auto all = harness::diagnoses_of(run_that_asked(kOfAll), rows);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].label, "rich");
  EXPECT_THAT(established(all[0].diagnosis), ElementsAre("static_graph"));
  EXPECT_DOUBLE_EQ(all[0].seconds, 2.0 * static_cast<double>(rows.size()));
  EXPECT_THAT(
      harness::to_lines(all[0]),
      HasSubstr("Removing static_graph (parallel.ddp.static_graph true -> false) removed the "
                "symptom. Putting it back brought it back."));
  EXPECT_EQ(harness::to_object(all[0]).at("status"), "established");
}

TEST(RecordedDiagnosis, ARunThatDidNotAskHasNone) {
  EXPECT_THAT(harness::diagnoses_of(RunRecord(), diagnosed_rows(kOfAll)), IsEmpty());
  EXPECT_EQ(diagnosed_rows({}).size(), 1U) << "nothing is asked for";
}

TEST(RecordedDiagnosis, ACaseThatPassedHasNone) {
  std::vector<CaseRecord> rows = {record_of(rich_case(), passed())};
  EXPECT_THAT(harness::diagnoses_of(run_that_asked(kOfAll), rows), IsEmpty());
}

// The failure of an earlier run is what is explained; it is told where it comes from.
TEST(RecordedDiagnosis, TheFailureOfAnEarlierRunIsExplained) {
  AskedDiagnosis asked{"20261121T041900Z-aaaa", "rich", {cause_at("GRAD.SCALE", {3})}};
  asked.causes[0].site.layers.clear();
  const harness::Pairs command = {{harness::kDiagnoseOption, harness::asked_text(asked)}};
  const auto all = harness::diagnoses_of(run_that_asked(command), diagnosed_rows(command));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].failed_in, asked.run);
  EXPECT_THAT(established(all[0].diagnosis), ElementsAre("static_graph"));

  asked.causes[0].code = "GRAD.MISSING";
  const harness::Pairs other = {{harness::kDiagnoseOption, harness::asked_text(asked)}};
  const std::vector<CaseRecord> rows = diagnosed_rows(other);
  EXPECT_EQ(rows.size(), 1U) << "it fails in another way than it did";
  const auto unknown = harness::diagnoses_of(run_that_asked(other), rows);
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].diagnosis.certainty, Diagnosis::Certainty::unknown);
}

TEST(RecordedDiagnosis, OnlyTheCaseItselfCountsForTheRun) {
  const std::vector<CaseRecord> rows = diagnosed_rows(kOfAll);
  EXPECT_THAT(harness::outcomes_that_count(rows), ElementsAre(Outcome::fail));
}

TEST(RecordedDiagnosis, WhatWasNotAskedForLackOfTimeIsTold) {
  std::vector<CaseRecord> rows = diagnosed_rows(kOfAll);
  rows.resize(2);
  const auto all = harness::diagnoses_of(run_that_asked(kOfAll), rows);
  EXPECT_THAT(harness::to_lines(all.at(0)),
              HasSubstr("not asked, the time was over: the other ranks, static_graph"));
  EXPECT_EQ(harness::to_object(all.at(0)).at("finished"), false);
  EXPECT_EQ(harness::to_object(all.at(0)).at("status"), "unknown");
}

TEST(RecordedDiagnosis, DamagedWordsAreNoRequest) {
  for (const char* text :
       {"{", "[]", "7", "{\"causes\": 7}", "{\"label\": \"rich\", \"causes\": []}"}) {
    const harness::Pairs command = {{harness::kDiagnoseOption, text}};
    EXPECT_EQ(diagnosed_rows(command).size(), 1U) << text;
  }
}

}  // namespace
}  // namespace fixtures
