// Which night came before, what is missing between nights, and what counts of several runs of one night.
#include "reports/nights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reports/sample.h"

namespace {

using fixtures::FakeStore;
using harness::CaseRecord;
using harness::Outcome;
using harness::RunRecord;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kFirst = 1'795'137'420'000;  // 2026-11-20 01:17:00 UTC

class Nights : public testing::Test {
 protected:
  RunRecord& add_run(std::int64_t started_ms,
                     bool complete = true,
                     const std::string& verb = "nightly",
                     const std::string& shard = "") {
    const auto id = static_cast<std::int64_t>(store_.run_rows.size() + 1);
    RunRecord run = fixtures::sample_run(id, "run" + std::to_string(id), started_ms);
    run.complete = complete;
    run.exit_code = complete ? 0 : -1;
    run.provenance.command = {{"verb", verb}};
    if (!shard.empty()) run.provenance.command.emplace_back("shard", shard);
    store_.run_rows.push_back(run);
    return store_.run_rows.back();
  }

  // Of the newest run.
  void plan(const std::string& budget, const std::string& scenarios = "/all") {
    harness::Pairs& command = store_.run_rows.back().provenance.command;
    command.emplace_back("budget", budget);
    command.emplace_back("scenarios", scenarios);
  }

  CaseRecord& add_case(const std::string& label, std::optional<Outcome> outcome) {
    const auto id = static_cast<std::int64_t>(store_.case_rows.size() + 1);
    const std::int64_t run = store_.run_rows.back().id;
    CaseRecord record = fixtures::sample_record(id, run, label);
    record.history_id = label;
    if (outcome) {
      record.judgement = *outcome == Outcome::pass ? fixtures::passed() : fixtures::failed();
      record.judgement->outcome = *outcome;
    }
    store_.case_rows.push_back(record);
    return store_.case_rows.back();
  }

  [[nodiscard]] std::string report(std::vector<RunRecord> runs) const {
    reports::ReportRequest request;
    request.runs = std::move(runs);
    return reports::render_report(store_, request);
  }

  FakeStore store_;
};

TEST(MissingNights, AreTheDaysBetween) {
  using reports::missing_nights;
  EXPECT_THAT(missing_nights(kFirst, kFirst + kDay), IsEmpty());
  EXPECT_THAT(missing_nights(kFirst, kFirst + kDay + 11 * kHour), IsEmpty()) << "it began late";
  EXPECT_THAT(missing_nights(kFirst, kFirst + 2 * kHour), IsEmpty()) << "started again by hand";
  EXPECT_THAT(missing_nights(kFirst, kFirst + 2 * kDay), ElementsAre("2026-11-21"));
  EXPECT_THAT(missing_nights(kFirst, kFirst + 3 * kDay - 5 * kHour),
              ElementsAre("2026-11-21", "2026-11-22"));
  EXPECT_THAT(missing_nights(kFirst, kFirst + 30 * kDay), ElementsAre("2026-11-21 to 2026-12-19"));
  EXPECT_THAT(missing_nights(kFirst, kFirst - 5 * kDay), IsEmpty()) << "a clock that was set back";
}

TEST_F(Nights, ThePreviousOneIsTheNewestThatEndedOfTheSameShard) {
  add_run(kFirst);
  add_case("a", Outcome::pass);
  add_run(kFirst + kHour, true, "run");
  add_run(kFirst + 2 * kHour, true, "nightly", "1/2");
  add_run(kFirst + kDay, false);
  add_case("a", Outcome::pass);
  add_case("b", std::nullopt);
  const RunRecord tonight = add_run(kFirst + 4 * kDay);
  const reports::EarlierNights earlier = reports::earlier_nights(store_, tonight);
  ASSERT_TRUE(earlier.previous);
  EXPECT_EQ(earlier.previous->name, "run1");
  EXPECT_EQ(earlier.cases.size(), 1U);
  ASSERT_EQ(earlier.broken.size(), 1U);
  EXPECT_EQ(earlier.broken[0].run.name, "run4");
  EXPECT_EQ(earlier.broken[0].planned, 2U);
  EXPECT_EQ(earlier.broken[0].unjudged, 1U);
  EXPECT_THAT(earlier.missing, ElementsAre("2026-11-22", "2026-11-23"));
  EXPECT_FALSE(reports::earlier_nights(store_, store_.run_rows[0]).previous);
}

TEST_F(Nights, ThePreviousOneBeganBeforeWhateverItsNumber) {
  add_run(kFirst + kDay);
  const RunRecord tonight = add_run(kFirst + 2 * kDay);
  add_run(kFirst);  // of another machine, merged afterwards
  EXPECT_EQ(reports::earlier_nights(store_, tonight).previous->name, "run1");
  EXPECT_EQ(reports::earlier_nights(store_, store_.run_rows[0]).previous->name, "run3");
}

TEST_F(Nights, OneOfAnotherPlanIsNobodysPreviousNight) {
  add_run(kFirst);
  plan("3h");
  add_case("a", Outcome::fail);
  add_case("b", Outcome::pass);
  add_run(kFirst + 12 * kHour);  // by hand, at noon: b was not reached
  plan("4m");
  add_case("a", Outcome::pass);
  add_case("b", Outcome::skip);
  add_run(kFirst + 13 * kHour, false);  // and this one was given up
  plan("3h", "/museum");
  add_case("m", std::nullopt);
  add_run(kFirst + kDay);
  plan("3h");
  add_case("a", Outcome::fail);
  add_case("b", Outcome::pass);
  const reports::EarlierNights earlier = reports::earlier_nights(store_, store_.run_rows[3]);
  EXPECT_EQ(earlier.previous->name, "run1");
  EXPECT_EQ(earlier.plan_text(), "");
  EXPECT_THAT(earlier.broken, IsEmpty());
  const std::string text = report({store_.run_rows[3]});
  EXPECT_THAT(text, HasSubstr("**1 still failing** (run run1)"));
  EXPECT_THAT(text, Not(HasSubstr("## Alarms")));
}

TEST_F(Nights, WhereNoneWasPlannedTheSameTheNewestIsAndWhatHasNoCounterpartIsToldAndNoAlarm) {
  add_run(kFirst);
  plan("3h");
  for (const char* label : {"a", "b", "c", "d"}) add_case(label, Outcome::pass);
  add_run(kFirst + 12 * kHour);
  plan("4m");
  add_case("a", Outcome::fail);
  for (const char* label : {"b", "c", "d"}) add_case(label, Outcome::skip);
  const std::string other_budget = report({store_.run_rows[1]});
  EXPECT_THAT(other_budget, HasSubstr("(run run1, planned otherwise: budget 3h, now 4m)"));
  EXPECT_THAT(other_budget, HasSubstr("| newly failing | a | PASS | FAIL"));
  EXPECT_THAT(other_budget,
              HasSubstr("So 0 cases of this night and 3 cases of that one have no counterpart."));
  EXPECT_THAT(other_budget, Not(HasSubstr("## Alarms")));
  add_run(kFirst + 13 * kHour);
  plan("3h", "/museum");
  add_case("m", Outcome::pass);
  const std::string other_scenarios = report({store_.run_rows[2]});
  EXPECT_THAT(other_scenarios,
              HasSubstr("So 1 case of this night and 1 case of that one have no counterpart."));
  EXPECT_THAT(other_scenarios, Not(HasSubstr("CELL MISSING")));
}

TEST_F(Nights, TwoPlansInOneNightAreComparedEachWithItsOwn) {
  add_run(kFirst);
  plan("3h");
  add_case("a", Outcome::pass);
  add_case("b", Outcome::pass);
  add_run(kFirst + kDay);
  plan("3h");
  add_case("a", Outcome::pass);
  add_case("b", Outcome::fail);
  add_run(kFirst + kDay + kHour);
  plan("4m", "/museum");
  add_case("m", Outcome::pass);
  const std::string text = report({store_.run_rows[1], store_.run_rows[2]});
  EXPECT_THAT(text,
              HasSubstr("| Against the previous night, scenarios /all, budget 3h | **1 newly "
                        "failing** (run run1) |"));
  EXPECT_THAT(text, HasSubstr("| Against the previous night, scenarios /museum, budget 4m | "));
  EXPECT_THAT(text, Not(HasSubstr("CELL MISSING")));
}

TEST_F(Nights, BeginAndEndAtNoon) {
  for (const std::int64_t hour : {0, 10, 11, 22, 24}) add_run(kFirst + hour * kHour);
  const auto nights = reports::split_into_nights(store_.run_rows, [](std::int64_t) { return 0; });
  ASSERT_EQ(nights.size(), 2U);
  EXPECT_EQ(nights[0].name, "2026-11-20");
  EXPECT_EQ(nights[0].runs.size(), 2U);
  EXPECT_EQ(nights[1].name, "2026-11-21");
  const auto east =
      reports::split_into_nights(store_.run_rows, [](std::int64_t) { return 9 * 60; });
  EXPECT_EQ(east[0].runs.size(), 1U) << "it is 10:17 there, and then 20:17";
}

TEST_F(Nights, TheNewestJudgementOfACellCounts) {
  add_run(kFirst);
  add_case("a", Outcome::fail);
  add_case("b", Outcome::pass);
  add_case("c", Outcome::pass);
  add_run(kFirst + kHour, true, "run");
  add_case("a", Outcome::pass);
  add_case("b", Outcome::error);
  add_case("c", std::nullopt).skip_reason = "no card";
  EXPECT_THAT(report({store_.run_rows[0]}), StartsWith("# NO-GO: 1 of 3 cases failed\n"));
  const std::string both = report(store_.run_rows);
  EXPECT_THAT(both, StartsWith("# NO-GO: 1 of 3 cases failed or could not be run"));
  EXPECT_THAT(both, HasSubstr("| Cases | 1 ERROR, 2 PASS |")) << "a skip undoes no judgement";
  store_.case_rows[4].judgement->outcome = Outcome::pass;
  EXPECT_THAT(report(store_.run_rows), StartsWith("# GO: all 3 cases passed"));
}

TEST_F(Nights, ARunThatDiedCountsUntilOthersDidAllOfIt) {
  add_run(kFirst, false);
  add_case("a", Outcome::pass);
  add_case("b", std::nullopt);
  add_run(kFirst + kHour, true, "run");
  add_case("a", Outcome::pass);
  EXPECT_THAT(report(store_.run_rows), StartsWith("# NO-GO: a run is incomplete"));
  add_case("b", Outcome::pass);
  EXPECT_THAT(report(store_.run_rows), StartsWith("# GO: all 2 cases passed"));
  add_run(kFirst + 2 * kHour, false);
  EXPECT_THAT(report(store_.run_rows), StartsWith("# NO-GO: a run is incomplete"))
      << "what it would have run is not known";
}

TEST_F(Nights, TwoNightsAreTwoDecisions) {
  add_run(kFirst);
  add_case("a", Outcome::fail);
  add_run(kFirst + kDay);
  add_case("a", Outcome::pass);
  reports::ReportRequest request;
  request.runs = {store_.run_rows[1]};
  request.night = "2026-11-21";
  request.earlier = {{"2026-11-20", {store_.run_rows[0]}}};
  request.about_range = "from then to now";
  const std::string text = reports::render_report(store_, request);
  EXPECT_THAT(text, StartsWith("# GO: a passed\n"));
  EXPECT_THAT(text,
              HasSubstr("| 2026-11-21 | **GO** | 1 PASS | – | run2 |\n"
                        "| 2026-11-20 | **NO-GO** | 1 FAIL | a | run1 |\n"));
  request.format = reports::Format::json;
  const auto json = nlohmann::json::parse(reports::render_report(store_, request));
  EXPECT_EQ(json.at("decision"), "GO");
  EXPECT_EQ(json.at("nights").at(0).at("decision"), "NO-GO");
  EXPECT_EQ(json.at("nights").at(1).at("runs"), nlohmann::json({"run2"}));
  EXPECT_EQ(json.at("runs").size(), 2U);
}

TEST_F(Nights, WhatIsMissingIsAnAlarm) {
  add_run(kFirst);
  add_case("a", Outcome::pass);
  add_case("b", Outcome::pass);
  add_case("c", Outcome::pass);
  add_run(kFirst + 3 * kDay);
  add_case("a", Outcome::pass);
  add_case("c", std::nullopt).skip_reason = "the night's budget";
  const std::string text = report({store_.run_rows[1]});
  EXPECT_THAT(text,
              HasSubstr("## Alarms\n\n- **NIGHT MISSING** No night began on 2026-11-21, "
                        "2026-11-22."));
  EXPECT_THAT(text,
              HasSubstr("1 case was judged in the previous night and not in this one: no "
                        "scenario has it any more (b)."));
  EXPECT_THAT(text, HasSubstr("the night's budget (c)."));
  EXPECT_THAT(report({store_.run_rows[0]}), Not(HasSubstr("Alarms")));
}

TEST_F(Nights, ASummaryIsCutAtTheBorderOfASection) {
  add_run(kFirst);
  add_case("a", Outcome::fail);
  reports::ReportRequest request;
  request.runs = store_.run_rows;
  const std::string whole = reports::render_report(store_, request);
  EXPECT_EQ(reports::render_summary(store_, request, whole.size() + 200), whole);
  bool cut = false;
  for (std::size_t most = 200; most < whole.size(); most += 97) {
    const std::string part = reports::render_summary(store_, request, most);
    ASSERT_LE(part.size(), most);
    const std::size_t rest = part.find("The rest is in the report itself");
    ASSERT_NE(rest, std::string::npos);
    EXPECT_EQ(part.substr(0, rest), whole.substr(0, rest));
    const std::string next = whole.substr(rest, 9);
    EXPECT_TRUE(rest == 0 || next.starts_with("## ") || next == "<details>") << next;
    cut = cut || rest > 0;
  }
  EXPECT_TRUE(cut);
}

}  // namespace
