// Reports against golden files, and the laws that every report keeps. NSA_WRITE_GOLDEN=1 writes the golden files anew.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/case_json.h"
#include "reports/markdown.h"
#include "reports/view.h"
#include "tests/reports/golden.h"
#include "tests/reports/sample.h"

namespace {

using fixtures::expect_golden;
using fixtures::FakeStore;
using harness::Outcome;

std::string rendered(const FakeStore& store, reports::Format format = reports::Format::engineer) {
  return reports::render_report(store, fixtures::request_for(store, format));
}

TEST(Report, EngineerIsTheGoldenFile) {
  expect_golden("engineer.md", rendered(fixtures::sample_store()));
}
TEST(Report, SummaryIsTheGoldenFile) {
  expect_golden("summary.md", rendered(fixtures::sample_store(), reports::Format::summary));
}
TEST(Report, JsonIsTheGoldenFile) {
  expect_golden("report.json", rendered(fixtures::sample_store(), reports::Format::json));
}
TEST(Report, SeveralNightsAreTheGoldenFile) {
  const FakeStore store = fixtures::sample_store();
  reports::ReportRequest request = fixtures::request_for(store);
  request.night = "2026-11-21";
  request.earlier = {{"2026-11-20", {store.run_rows[0]}}};
  request.about_range = "2026-11-20 00:00:00 to 2026-11-21 05:00:00 (UTC+01:00)";
  expect_golden("since.md", reports::render_report(store, request));
}

TEST(Report, ABisectionIsTheGoldenFile) {
  expect_golden("bisection.md",
                rendered(fixtures::bisected_store(false), reports::Format::summary));
}

TEST(Report, ADiagnosisIsTheGoldenFile) {
  expect_golden("diagnosis.md", rendered(fixtures::diagnosed_store(), reports::Format::summary));
}

TEST(Report, ACaseThatCannotBeReadIsNotTakenForOneWithoutAFault) {
  FakeStore store = fixtures::sample_store();
  for (auto& row : store.case_rows) row.case_json = "{";
  const auto view = reports::make_view(store, fixtures::request_for(store));
  ASSERT_FALSE(view.cases.empty());
  for (const auto& one : view.cases) {
    EXPECT_FALSE(one.nothing_planted()) << one.record.label;
    EXPECT_THAT(rendered(store), testing::HasSubstr(reports::escape(one.unreadable)));
  }
}

TEST(Report, TheExperimentsOfADiagnosisAreNoCases) {
  const FakeStore store = fixtures::diagnosed_store();
  ASSERT_GT(store.case_rows.size(), 5U);
  const nlohmann::json object = reports::render_json(store, store.run_rows.back(), "report.md");
  EXPECT_EQ(object.at("cases").size(), 1U);
  EXPECT_EQ(object.at("diagnoses").at(0).at("status"), "established");
  const std::string text = rendered(store);
  EXPECT_NE(text.find("1 case"), std::string::npos) << text;
}

TEST(Report, WhatTheTrialsOfABisectionHaveAlikeIsToldOnce) {
  const std::string text = rendered(fixtures::bisected_store(false));
  const std::size_t from = text.find("## Critical findings");
  const std::string section = text.substr(from, text.find("\n## ", from + 1) - from);
  const std::string title = "### ddp_checkpoint";
  const std::size_t first = section.find(title);
  ASSERT_NE(first, std::string::npos) << section;
  EXPECT_EQ(section.find(title, first + 1), std::string::npos) << section;
  EXPECT_NE(section.find("The same was found in ddp_checkpoint"), std::string::npos) << section;
}

TEST(Report, ABisectionThatFoundWhatWasExpectedIsGo) {
  const std::string found = rendered(fixtures::bisected_store(true), reports::Format::summary);
  EXPECT_EQ(found.rfind("# GO: what a bisection was expected to find was found\n", 0), 0U) << found;
  EXPECT_EQ(found.find("What failed"), std::string::npos);
  const std::string broken = rendered(fixtures::bisected_store(false));
  EXPECT_EQ(broken.rfind("# NO-GO: ", 0), 0U) << broken;
  EXPECT_NE(
      broken.find("1. **FAIL** bisection of ddp_checkpoint over parallel.checkpoint.layers: a "
                  "minimal set that fails is \\[1, 3\\]"),
      std::string::npos)
      << broken;
}

TEST(Report, ABisectionThatWasNotBegunIsNoFailure) {
  FakeStore store = fixtures::bisected_store(false);
  store.case_rows.resize(1);
  store.case_rows.front().judgement.reset();
  store.case_rows.front().skip_reason = "the night's budget of 4 min did not suffice for it";
  const std::string text = rendered(store);
  EXPECT_EQ(text.find("What failed"), std::string::npos) << text;
  EXPECT_NE(text.find("the night's budget of 4 min did not suffice for it"), std::string::npos);
}

TEST(Report, AKnownFailureSaysWhyAndUntilWhen) {
  FakeStore store = fixtures::sample_store();
  harness::Case known = fixtures::sample_case("kcmp_detached");
  known.scenario.known = harness::KnownFailure{
      {{"model.w", "64"}}, Outcome::fail, "GRAD.MISSING", "nobody <mended> it", "2027-01-31"};
  store.case_rows[3].case_json = harness::case_to_json(known);
  store.case_rows[3].judgement->outcome = Outcome::xfail;
  store.case_rows[3].judgement->reason = "nobody <mended> it (known until 2027-01-31; x)";
  const std::string text = rendered(store);
  EXPECT_NE(text.find("| **XFAIL** | kcmp_detached |"), std::string::npos) << text;
  EXPECT_NE(text.find("Known: nobody &lt;mended&gt; it (known until 2027-01-31"),
            std::string::npos);
  EXPECT_NE(text.find("FAIL GRAD.MISSING where model.w=64, until 2027-01-31: nobody"),
            std::string::npos);
  EXPECT_NE(text.find("CONDITIONAL GO"), std::string::npos);
}

TEST(Report, AClaimStandsBesideTheVerdict) {
  FakeStore store = fixtures::sample_store();
  EXPECT_EQ(rendered(store).find("What it supersedes"), std::string::npos);
  for (const std::size_t row : {2, 3}) {
    harness::Case claimed = fixtures::sample_case(store.case_rows[row].scenario);
    claimed.scenario.claim = "said <b>before</b> of " + store.case_rows[row].scenario;
    store.case_rows[row].case_json = harness::case_to_json(claimed);
  }
  for (const auto format : {reports::Format::engineer, reports::Format::summary}) {
    const std::string text = rendered(store, format);
    const std::size_t at = text.find("## What it supersedes");
    ASSERT_NE(at, std::string::npos) << text;
    const std::string section = text.substr(at, text.find("\n## ", at + 1) - at);
    for (const std::size_t row : {2, 3}) {
      const harness::CaseRecord& record = store.case_rows[row];
      const std::string said =
          "said &lt;b&gt;before&lt;/b&gt; of " + reports::escape(record.scenario);
      const std::size_t line = section.find(said);
      ASSERT_NE(line, std::string::npos) << section;
      // A finding where there is one; of a case that passed, what its first check saw.
      const auto& judgement = *record.judgement;
      const std::string verdict = judgement.findings.empty() ? judgement.verdicts.front().reason
                                                             : judgement.findings.front().statement;
      EXPECT_NE(section.find(reports::escape(verdict), line), std::string::npos) << section;
    }
  }
}

TEST(Report, SameRowsGiveSameBytes) {
  EXPECT_EQ(rendered(fixtures::sample_store()), rendered(fixtures::sample_store()));
}

TEST(Report, EveryVerdictShows) {
  const std::string before = rendered(fixtures::sample_store());
  for (std::size_t row = 2; row < 4; ++row) {
    const FakeStore untouched = fixtures::sample_store();
    for (std::size_t check = 0; check < untouched.case_rows[row].judgement->verdicts.size();
         ++check) {
      FakeStore store = fixtures::sample_store();
      store.case_rows[row].judgement->verdicts[check].verdict = harness::Verdict::inconclusive;
      EXPECT_NE(rendered(store), before);
    }
    FakeStore store = fixtures::sample_store();
    store.case_rows[row].judgement->outcome = Outcome::slow;
    EXPECT_NE(rendered(store), before);
  }
}

TEST(Report, TextOfWorkersFormsNoMarkup) {
  const std::string text = rendered(fixtures::sample_store());
  EXPECT_EQ(text.find("<b>"), std::string::npos);
  EXPECT_EQ(text.find("@team"), std::string::npos);
  EXPECT_EQ(text.find("http://evil"), std::string::npos);
  EXPECT_EQ(text.find("\n# heading"), std::string::npos);
  EXPECT_NE(text.find("&lt;b&gt;"), std::string::npos);
}

TEST(Report, WithoutEvidenceItSaysSo) {
  const std::string text = rendered(fixtures::sample_store());
  EXPECT_NE(text.find("Nothing was recorded."), std::string::npos);
}

TEST(Report, SkippedAndUndecidedAreNotPassed) {
  FakeStore store = fixtures::sample_store();
  store.case_rows[3].judgement.reset();
  const std::string text = rendered(store, reports::Format::summary);
  EXPECT_NE(text.find("1 INCONCLUSIVE, 1 SKIP, 1 PASS"), std::string::npos) << text;
  EXPECT_NE(text.find("CONDITIONAL GO"), std::string::npos);
}

TEST(Report, NeedsARun) {
  EXPECT_THROW((void)reports::render_report(fixtures::sample_store(), {}), nsa::Error);
}

TEST(Report, AProfileThatWasAnotherOneIsTold) {
  FakeStore store = fixtures::sample_store();
  store.case_rows[0].profile = "gpu";
  store.case_rows[0].history_id = "of the other profile";
  const std::string text = rendered(store);
  EXPECT_NE(text.find("| Profile | none; **1 case had profile gpu in the run before** |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| first time | ddp_onestep | profile was gpu, is none | PASS |"),
            std::string::npos);
}

TEST(Report, OfSeveralRunsTheHeadTellsEach) {
  const FakeStore store = fixtures::sample_store();
  reports::ReportRequest request = fixtures::request_for(store);
  request.runs = store.run_rows;
  const std::string text = reports::render_report(store, request);
  for (const harness::RunRecord& run : store.run_rows) {
    EXPECT_NE(text.find("| " + run.name + " | 2026-11-2"), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("| Commit |"), std::string::npos) << "whose would it be?";
}

TEST(Report, AFailedCaseFoldsItsFilesWhereTheyAreMany) {
  const std::string fold = "<summary>Files of this case</summary>";
  FakeStore store = fixtures::sample_store();
  for (harness::CaseRecord& record : store.case_rows) {
    record.digest.recorded = true;
    record.digest.files.assign(9, {0, "rank_0/step_1/x.safetensors", 1000, "aa"});
  }
  const std::string wanted = "of the run: 9 files, 9 kB when written.\n\n<details>\n" + fold;
  EXPECT_NE(rendered(store).find(wanted), std::string::npos);
  for (harness::CaseRecord& record : store.case_rows) record.digest.files.resize(8);
  EXPECT_EQ(rendered(store).find(fold), std::string::npos);
}

TEST(Report, ItsCommandsCanBePasted) {
  FakeStore store = fixtures::sample_store();
  store.run_rows.back().provenance.command = {{"program", "/my tree/nsa-harness"},
                                              {"directory", "/my tree"},
                                              {"database", "/data/it's.db"},
                                              {"seed", "5"}};
  harness::Case bad = fixtures::sample_case("kcmp_detached");
  bad.scenario.path = "/my tree/s.yaml";
  bad.point = {{"model.w", "64"}, {"parallel.checkpoint.layers", "[1, 3]"}};
  store.case_rows[3].case_json = harness::case_to_json(bad);
  const std::string text = rendered(store);
  EXPECT_NE(text.find("'/my tree/nsa-harness' run '/my tree/s.yaml' --seed 5 --only model.w=64 "
                      "--only 'parallel.checkpoint.layers=[1, 3]' --db '/data/it'\\''s.db'\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("cd '/my tree' && '/my tree/nsa-harness' run scenarios/ddp_onestep.yaml\n"),
            std::string::npos);
  EXPECT_NE(text.find("'/my tree/nsa-harness' judge 20261121T041900Z-bbbb --db "),
            std::string::npos);
}

// ---- GO, CONDITIONAL GO, NO-GO -------------------------------------------------------------------------------------------

std::string decided(const std::vector<Outcome>& outcomes, bool complete = true) {
  harness::RunRecord run;
  run.complete = complete;
  std::vector<harness::CaseRecord> cases;
  for (const Outcome outcome : outcomes) {
    harness::CaseRecord record;
    if (outcome == Outcome::skip) {
      record.skip_reason = "why";
    } else {
      record.judgement = harness::Judgement{};
      record.judgement->outcome = outcome;
    }
    cases.push_back(record);
  }
  return reports::decision({run}, cases);
}

TEST(Decision, APassWithoutSomeOfItsChecksIsConditional) {
  harness::RunRecord run;
  run.complete = true;
  harness::Case the_case = fixtures::sample_case("ddp_onestep");
  the_case.scenario.checks = {"finite", "progress"};
  the_case.scenario.observe = harness::kWatchProcesses;
  harness::CaseRecord record;
  record.case_json = harness::case_to_json(the_case);
  record.judgement = harness::Judgement{};
  record.judgement->outcome = Outcome::pass;
  record.judgement->verdicts = {{"progress", harness::Verdict::pass, "", {}, {}}};
  EXPECT_EQ(reports::decision({run}, {record}), "CONDITIONAL GO");
  the_case.scenario.checks = {"progress"};
  record.case_json = harness::case_to_json(the_case);
  EXPECT_EQ(reports::decision({run}, {record}), "GO") << "everything was asked";
}

// A green decision on a training of the user's own speaks of nothing that was not looked at.
TEST(Decision, OnCommandsIsGoOnlyWhereAllChecksWereAsked) {
  harness::RunRecord run;
  run.complete = true;
  harness::Case the_case = fixtures::sample_case("train");
  the_case.scenario.kind = harness::kCommandKind;
  the_case.scenario.command.argv = {"train"};
  the_case.scenario.checks = {"process_clean", "finite"};
  harness::CaseRecord record;
  record.case_json = harness::case_to_json(the_case);
  record.judgement = harness::Judgement{};
  record.judgement->outcome = Outcome::pass;
  record.judgement->verdicts = {{"process_clean", harness::Verdict::pass, "", {}, {}}};
  EXPECT_EQ(reports::decision({run}, {record}), "ENDED BY ITSELF");
  harness::CaseRecord whole = record;
  whole.judgement->verdicts.push_back({"finite", harness::Verdict::pass, "", {}, {}});
  EXPECT_EQ(reports::decision({run}, {whole}), "GO");
  EXPECT_EQ(reports::decision({run}, {whole, record}), "ENDED BY ITSELF");
  harness::CaseRecord open = whole;
  open.judgement->outcome = Outcome::inconclusive;
  EXPECT_EQ(reports::decision({run}, {open}), "INCONCLUSIVE");
  EXPECT_EQ(reports::decision({run}, {whole, open}), "INCONCLUSIVE");
  harness::CaseRecord failed = whole;
  failed.judgement->outcome = Outcome::crash;
  EXPECT_EQ(reports::decision({run}, {whole, failed}), "NO-GO");
  run.complete = false;
  EXPECT_EQ(reports::decision({run}, {record}), "NO-GO");
}

// Of a command: its own words, where it was started, and nothing of a model; what failed is told once.
TEST(ReportOfACommand, TellsWhatFailedOnceAndInventsNoModel) {
  FakeStore store = fixtures::sample_store();
  const auto failed =
      std::find_if(store.case_rows.begin(), store.case_rows.end(), [&](const auto& one) {
        return one.run_id == store.run_rows.back().id && one.judgement &&
               !one.judgement->findings.empty();
      });
  ASSERT_NE(failed, store.case_rows.end());
  harness::CaseRecord record = *failed;
  harness::Case the_case = fixtures::sample_case("train");
  the_case.scenario.kind = harness::kCommandKind;
  the_case.scenario.command.argv = {"python", "train.py"};
  the_case.scenario.command.directory = "/work of mine";
  the_case.scenario.fault.reset();
  record.case_json = harness::case_to_json(the_case);
  record.digest.last_lines = {{"command.err", "Traceback\nValueError: row 4711"}};
  store.case_rows = {record};
  const std::string text = rendered(store);
  const std::string statement = record.judgement->findings.front().statement;
  const std::size_t first = text.find(statement);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("what happened: " + statement), std::string::npos) << text;
  EXPECT_THAT(text, testing::HasSubstr("ValueError: row 4711\n"));
  EXPECT_THAT(text, testing::HasSubstr(record.folder + "/command.err"));
  EXPECT_THAT(text, testing::HasSubstr("| command | python train.py |"));
  EXPECT_THAT(text, testing::HasSubstr("| started in | /work of mine |"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("layers, ")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("heads in ")));
  store.case_rows.front().judgement->outcome = Outcome::pass;
  EXPECT_THAT(rendered(store), testing::Not(testing::HasSubstr("ValueError")));
}

TEST(Decision, FollowsTheWrittenRules) {
  EXPECT_EQ(decided({Outcome::pass, Outcome::pass}), "GO");
  for (const Outcome open : {Outcome::skip, Outcome::inconclusive, Outcome::xfail}) {
    EXPECT_EQ(decided({Outcome::pass, open}), "CONDITIONAL GO");
    EXPECT_EQ(decided({open}), "NO-GO");
  }
  for (const Outcome bad : {Outcome::fail,
                            Outcome::hang,
                            Outcome::slow,
                            Outcome::crash,
                            Outcome::oom,
                            Outcome::error,
                            Outcome::xpass}) {
    EXPECT_EQ(decided({Outcome::pass, bad}), "NO-GO");
  }
  EXPECT_EQ(decided({}), "NO-GO");
  EXPECT_EQ(decided({Outcome::pass}, false), "NO-GO");
}

// ---- run --json ------------------------------------------------------------------------------------------------------------

TEST(RunJson, HasTheMembersOfTheContract) {
  const FakeStore store = fixtures::sample_store();
  const nlohmann::json object = reports::render_json(store, store.run_rows.back(), "report.md");
  EXPECT_EQ(object["run"], "20261121T041900Z-bbbb");
  EXPECT_EQ(object["exit"], 1);
  EXPECT_EQ(object["report"], "report.md");
  ASSERT_EQ(object["cases"].size(), 3U);
  const auto& first = object["cases"][0];
  EXPECT_EQ(first["outcome"], "PASS");
  EXPECT_EQ(first["metrics"]["loss"], 5.545);
  EXPECT_EQ(first["verdicts"][1]["measured"][1]["value"], "NaN");
  EXPECT_TRUE(first["verdicts"][1]["measured"][2]["limit"].is_null());
  const auto& second = object["cases"][1];
  EXPECT_EQ(second["findings"][0]["code"], "GRAD.MISSING");
  EXPECT_EQ(second["findings"][0]["site"]["layers"], nlohmann::json({3}));
  EXPECT_EQ(second["findings"][1]["role"], "cascade");
  EXPECT_EQ(object["cases"][2]["outcome"], "SKIP");
  EXPECT_EQ(object["cases"][2]["reason"], "requires 2 GPUs, found 0");
}

TEST(RunJson, HasTheAnswerOfABisection) {
  const FakeStore store = fixtures::bisected_store(true);
  const nlohmann::json object = reports::render_json(store, store.run_rows.back(), "report.md");
  EXPECT_EQ(object["bisect"]["over"], "parallel.checkpoint.layers");
  EXPECT_EQ(object["bisect"]["minimal"], nlohmann::json({1, 3}));
  EXPECT_EQ(object["bisect"]["trials"], store.case_rows.size());
  EXPECT_EQ(object["bisect"]["conclusion"], "a minimal set that fails is [1, 3]");
  EXPECT_EQ(object["bisect"]["missed"], "");
}

}  // namespace
