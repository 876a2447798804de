// Reports for programs: golden files, and what must hold whatever a worker wrote.
#include <gtest/gtest.h>

#include "tests/reports/golden.h"
#include "tests/reports/sample.h"

namespace {

using fixtures::FakeStore;
using reports::Format;

std::string formatted(const FakeStore& store, Format format) {
  return reports::render_report(store, fixtures::request_for(store, format));
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Formats, JUnitIsTheGoldenFile) {
  fixtures::expect_golden("junit.xml", formatted(fixtures::sample_store(), Format::junit));
}

TEST(Formats, AnIssueIsTheGoldenFile) {
  fixtures::expect_golden("issue.md", formatted(fixtures::sample_store(), Format::github));
}

// The counts of a suite are those of its tests, and only PASS has neither failure nor error nor skip.
TEST(Formats, OnlyPassIsPassedInJUnit) {
  for (const char* name : harness::kOutcomeNames) {
    const harness::Outcome outcome = harness::outcome_from(name).value();
    FakeStore store = fixtures::sample_store();
    for (harness::CaseRecord& record : store.case_rows) {
      record.skip_reason = "";
      if (!record.judgement) record.judgement = store.case_rows[2].judgement;
      record.judgement->outcome = outcome;
    }
    const std::string text = formatted(store, Format::junit);
    const std::size_t tests = count(text, "<testcase ");
    ASSERT_GT(tests, 0U);
    const std::size_t told =
        count(text, "<failure ") + count(text, "<error ") + count(text, "<skipped ");
    EXPECT_EQ(told, outcome == harness::Outcome::pass ? 0U : tests) << harness::name_of(outcome);
  }
}

// What a worker wrote is neither markup nor a byte that XML forbids.
TEST(Formats, JUnitIsWellFormedWhateverAWorkerWrote) {
  FakeStore store = fixtures::sample_store();
  const std::string hostile =
      "</failure>\"'&]]>\x01\x1b[0m\xff\xc0\x80\xed\xa0\x80 \xe2\x82\xac \xef\xbf\xbf";
  for (harness::CaseRecord& record : store.case_rows) {
    record.label += hostile;
    if (!record.judgement) continue;
    record.judgement->reason = hostile;
    for (harness::Finding& finding : record.judgement->findings) finding.statement = hostile;
  }
  const std::string text = formatted(store, Format::junit);
  EXPECT_EQ(count(text, "<failure "), count(text, "</failure>"));
  EXPECT_EQ(text.find_first_of("\x01\x1b\xff\xc0"), std::string::npos);
  EXPECT_EQ(text.find("\xed\xa0"), std::string::npos);
  EXPECT_EQ(text.find("\xef\xbf\xbf"), std::string::npos);
  EXPECT_NE(text.find("\xe2\x82\xac"), std::string::npos) << "a euro sign is a character";
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1)) {
    const std::string entity = text.substr(at, text.find(';', at) - at + 1);
    EXPECT_TRUE(entity == "&amp;" || entity == "&lt;" || entity == "&gt;" || entity == "&quot;" ||
                entity == "&#10;")
        << entity;
  }
}

std::string signatures_of(const FakeStore& store) {
  const std::string text = formatted(store, Format::github);
  return text.substr(0, text.find('\n'));
}

// The same failure has the same signature in every run; another place is another signature.
TEST(Formats, ASignatureIsOfTheFailureAndNotOfTheRun) {
  const std::string before = signatures_of(fixtures::sample_store());
  FakeStore later = fixtures::sample_store();
  for (harness::RunRecord& run : later.run_rows) run.name += "x";
  for (harness::CaseRecord& record : later.case_rows) {
    record.seconds += 1.0;
    if (!record.judgement) continue;
    for (harness::Finding& finding : record.judgement->findings) finding.statement += " 0.3";
  }
  EXPECT_EQ(signatures_of(later), before);
  FakeStore elsewhere = fixtures::sample_store();
  elsewhere.case_rows[3].judgement->findings.front().site.layers = {2};
  EXPECT_NE(signatures_of(elsewhere), before);
}

TEST(Formats, AnIssueOfGitHubIsNeverTooLong) {
  FakeStore store = fixtures::sample_store();
  const harness::CaseRecord failed = store.case_rows[3];
  for (int i = 0; i < 300; ++i) {
    harness::CaseRecord more = failed;
    more.id = 100 + i;
    more.label = "case " + std::to_string(i);
    more.scenario = "scenario " + std::to_string(i);
    store.case_rows.push_back(more);
  }
  const std::string text = formatted(store, Format::github);
  EXPECT_LE(text.size(), 65'536U);
  EXPECT_NE(text.find("causes more: see the report."), std::string::npos);
}

// Every slice begins and ends, in the process of its case and the thread of its rank; of bytes that are no text none
// is left.
TEST(Formats, ATraceHasEveryPhaseAndCollectiveOfARank) {
  const FakeStore store = fixtures::sample_store();
  reports::ReportRequest request = fixtures::request_for(store, Format::perfetto);
  reports::Lane lane;
  lane.process = 1;
  lane.phases = {{"forward\xff", 10, 30, 2, false, -1, "", 0}};
  lane.collectives = {{"allreduce", 12, 40, 2, true, 7, "default", 42}};
  lane.moments = {{40, "signal 9"}};
  request.timelines[store.case_rows[3].id] = {
      50, {lane}, {{"nothing moved", 20, 50, 0, false, -1, "", 0}}, {{50, "stopped"}}};
  const auto trace = nlohmann::json::parse(reports::render_report(store, request));
  std::map<std::string, std::vector<nlohmann::json>> by_kind;
  for (const auto& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 1);
    by_kind[event.at("ph")].push_back(event);
  }
  ASSERT_EQ(by_kind["X"].size(), 2U);
  EXPECT_EQ(by_kind["X"][0].at("tid"), 2);
  EXPECT_EQ(by_kind["X"][0].at("ts"), 10'000);
  EXPECT_EQ(by_kind["X"][0].at("dur"), 20'000);
  EXPECT_EQ(by_kind["X"][1].at("name"), "nothing moved");
  ASSERT_EQ(by_kind["b"].size(), 1U);
  ASSERT_EQ(by_kind["e"].size(), 1U);
  EXPECT_EQ(by_kind["b"][0].at("id"), by_kind["e"][0].at("id"));
  EXPECT_EQ(by_kind["b"][0].at("args").at("sequence"), 7);
  EXPECT_EQ(by_kind["b"][0].at("args").at("never ended"), true);
  EXPECT_EQ(by_kind["e"][0].at("ts"), 40'000);
  EXPECT_EQ(by_kind["i"].size(), 2U);
  std::vector<std::string> names;
  for (const auto& event : by_kind["M"]) names.push_back(event.at("args").at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"FAIL kcmp_detached", "rank 1", "all"}));
}

}  // namespace
