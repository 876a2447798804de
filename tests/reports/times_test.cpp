// Times over the nights, from rows to what the report of a night says.
#include "reports/times.h"

#include <random>

#include "reports/comparison.h"
#include "tests/reports/sample.h"

namespace {

using fixtures::FakeStore;
using harness::CaseRecord;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kNightMs = 24 * 3'600'000;
constexpr std::int64_t kFirstNight = 1'795'137'420'000;

class Times : public testing::Test {
 protected:
  // A night of one cell: launches and the rerun of all of them.
  void add_night(double step_ms, double control_ms, int launches = 16) {
    const auto id = static_cast<std::int64_t>(store_.run_rows.size() + 1);
    harness::RunRecord run =
        fixtures::sample_run(id, "run" + std::to_string(id), kFirstNight + id * kNightMs);
    run.complete = true;
    run.exit_code = 0;
    run.provenance.command = {{"verb", "nightly"}};
    store_.run_rows.push_back(run);
    for (int i = 0; i < launches; ++i) {
      const auto row = static_cast<std::int64_t>(store_.case_rows.size() + 1);
      CaseRecord record = fixtures::sample_record(row, id, i == 0 ? "fast" : "fast[launch]");
      record.position = i;
      record.scenario = "fast";
      record.history_id = "fast";
      harness::Case content = fixtures::sample_case("fast");
      content.scenario.path = "scenarios/fast.yaml";
      record.case_json = harness::case_to_json(content);
      record.judgement = fixtures::passed();
      record.digest.metrics = {{harness::kControlMs, control_ms * noise()},
                               {harness::kStepMs, step_ms * noise()}};
      store_.case_rows.push_back(record);
    }
  }
  double noise() { return 1.0 + 0.01 * std::normal_distribution<>()(random_); }

  [[nodiscard]] std::string report(reports::Format format = reports::Format::engineer) const {
    reports::ReportRequest request;
    request.format = format;
    request.runs = {store_.run_rows.back()};
    return reports::render_report(store_, request);
  }
  [[nodiscard]] reports::TimedCell last_cell() const {
    const auto& runs = store_.run_rows;
    const auto cells =
        reports::judge_times(store_, runs[runs.size() - 2], runs.back(), store_.case_rows);
    EXPECT_EQ(cells.size(), 1U);
    return cells.at(0);
  }

  void SetUp() override {
    for (int i = 0; i < 10; ++i) add_night(100.0, 10.0);
  }

  FakeStore store_;
  std::mt19937 random_{5};
};

TEST_F(Times, ACalmNightSaysWhatItWouldHaveSeen) {
  add_night(100.0, 10.0);
  const std::string text = report();
  EXPECT_THAT(text, HasSubstr("| fast |"));
  EXPECT_THAT(text, HasSubstr("| SAME |"));
  EXPECT_THAT(text, HasSubstr("smallest change that is seen"));
  EXPECT_THAT(text, Not(HasSubstr("SLOWER")));
  EXPECT_GT(last_cell().judgement.smallest, 0.01);
  EXPECT_NEAR(last_cell().before_ms, 100.0, 2.0);
}

TEST_F(Times, ASlowerCellIsAnAlarmOnTheFirstScreen) {
  add_night(106.0, 10.0);
  EXPECT_EQ(last_cell().judgement.verdict, harness::history::TimeVerdict::regressed);
  const std::string text = report();
  EXPECT_THAT(text, HasSubstr("**SLOWER** fast: REGRESSED +"));
  EXPECT_THAT(text, HasSubstr("(code)"));
  EXPECT_THAT(text, HasSubstr("**1 cell slower**"));
}

TEST_F(Times, WhereACommitMadeItSlowerTheSearchForItIsNamed) {
  add_night(100.0, 10.0);
  store_.run_rows.back().provenance.commit = "fast";
  add_night(106.0, 10.0);
  EXPECT_THAT(report(),
              HasSubstr("`./nsa-harness bisect --commits fast 0123456789abcdef --slower "
                        "'./nsa-harness run scenarios/fast.yaml --profile base'`"));
  store_.run_rows.back().provenance.commit = "fast";
  EXPECT_THAT(report(), Not(HasSubstr("bisect"))) << "there is no commit between them";
  store_.run_rows.back().provenance.commit = "slow";
  store_.run_rows.back().provenance.machine = {{"cpu", "other"}};
  EXPECT_THAT(report(), Not(HasSubstr("bisect"))) << "no commit changed the machine";
}

TEST_F(Times, ASlowerCellFailsInEveryFormat) {
  add_night(106.0, 10.0);
  const std::string junit = report(reports::Format::junit);
  EXPECT_THAT(junit, HasSubstr("<testsuite name=\"alarms\" tests=\"1\" failures=\"1\""));
  EXPECT_THAT(junit, HasSubstr("<failure type=\"SLOWER\" message=\"fast: REGRESSED +"));
  const std::string issue = report(reports::Format::github);
  EXPECT_THAT(issue, HasSubstr("- [ ] **SLOWER** fast: REGRESSED +"));
  EXPECT_THAT(issue, Not(HasSubstr("signatures:  -->"))) << "it is told once, not every night anew";
  const auto json = nlohmann::json::parse(report(reports::Format::json));
  EXPECT_EQ(json.at("alarms").at(0).at("alarm"), "SLOWER");
  EXPECT_TRUE(json.at("alarms").at(0).at("fails").get<bool>());
}

TEST_F(Times, WhatCannotBeJudgedIsAnAlarmThatDoesNotFail) {
  add_night(106.0, 10.0);
  store_.run_rows.back().provenance.machine = {{"cpu", "other"}};
  EXPECT_THAT(report(), HasSubstr("**TIME NOT JUDGED** fast: NOT_COMPARABLE"));
  EXPECT_THAT(report(reports::Format::junit),
              HasSubstr("failures=\"0\" errors=\"0\" skipped=\"1\""));
}

TEST_F(Times, ASlowerMachineIsNone) {
  add_night(106.0, 10.6);
  EXPECT_THAT(report(), Not(HasSubstr("SLOWER")));
  EXPECT_THAT(report(), HasSubstr("SAME (machine)"));
}

TEST_F(Times, AnotherCardIsNotCompared) {
  add_night(106.0, 10.0);
  store_.run_rows.back().provenance.machine = {{"cpu", "other"}};
  EXPECT_THAT(report(), HasSubstr("NOT_COMPARABLE"));
}

TEST_F(Times, WhatSomebodyAcceptedIsTheReference) {
  for (int i = 0; i < 2; ++i) add_night(106.0, 10.0);
  store_.accepted.push_back({"fast", 11, kFirstNight, "a larger model"});
  EXPECT_EQ(last_cell().judgement.verdict, harness::history::TimeVerdict::same);
  const auto nights = reports::nights_of_cell(store_, store_.run_rows, "fast");
  const std::string text = reports::history_text(
      store_.run_rows, harness::history::judge_nights(nights), store_.acceptances("fast"), 3);
  EXPECT_THAT(text, HasSubstr("accepted from run 11 on"));
  EXPECT_THAT(text, HasSubstr("| run10 |"));
  EXPECT_THAT(text, Not(HasSubstr("| run9 |")));
}

TEST_F(Times, FewLaunchesJudgeNothing) {
  add_night(200.0, 10.0, 7);
  EXPECT_THAT(report(), HasSubstr("measured by 7 launches, wanted 8"));
}

TEST_F(Times, LaunchesAreOneCellOfTheComparison) {
  add_night(100.0, 10.0);
  const auto cells = reports::compare_cells(store_.cases(10), store_.cases(11));
  EXPECT_EQ(cells.in_both, 1U);
  store_.case_rows.back().judgement->outcome = harness::Outcome::crash;
  const auto worse = reports::compare_cells(store_.cases(10), store_.cases(11));
  EXPECT_EQ(worse.count(reports::CellChange::newly_failing), 1U) << "one failed launch is enough";
}

}  // namespace
