// Levels of observation on real ranks: what a level leaves out is not in the record, and the steps compute the same at all of them.
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/record/run_folder.h"
#include "tests/e2e/installed.h"

namespace e2e {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// What ranks wrote in the case at `position` of the only run: kinds of rows, and the states of gradients.
struct Record {
  std::set<std::string> kinds;
  std::set<std::string> states;
  std::int64_t operators = 0;
};

Record record_of(const Told& told, std::size_t position) {
  const fs::path run = fs::path(told.out.at("report").get<std::string>()).parent_path();
  Record record;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string begin = "0" + std::to_string(position + 1) + "_";
    if (entry.path().filename().string().rfind(begin, 0) != 0) continue;
    (void)harness::read_event_log(entry.path(), [&](const harness::Event& event) {
      if (event.process < 0) return;
      record.kinds.insert(event.kind);
      if (event.kind == "gradient") record.states.insert(event.body.at("state"));
      if (event.kind != "heartbeat") return;
      record.operators += event.body.at("counters").at("operators_forward").get<std::int64_t>();
    });
  }
  return record;
}

std::map<std::string, std::string> verdicts_of(const nlohmann::json& the_case) {
  std::map<std::string, std::string> verdicts;
  for (const auto& one : the_case.at("verdicts")) verdicts[one.at("check")] = one.at("verdict");
  return verdicts;
}

TEST(Observe, EachLevelRecordsItsPartAndAllComputeTheSame) {
  const Installed program;
  const Told told = program(
      "run",
      {scenario("observe"), "--profile", "base", "--set", "training.steps=3", "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 0) << told.text;
  const nlohmann::json& cases = told.out.at("cases");
  ASSERT_EQ(cases.size(), 3U);
  for (const auto& one : cases) EXPECT_EQ(one.at("outcome"), "PASS") << one.dump(1);

  const Record values = record_of(told, 0);
  EXPECT_THAT(values.kinds, Contains("artefact"));
  const Record events = record_of(told, 1);
  for (const char* kind : {"gradient", "collective", "sample", "route"}) {
    EXPECT_THAT(events.kinds, Contains(kind));
  }
  for (const char* kind : {"artefact", "batch", "update", "exposure", "gate_use"}) {
    EXPECT_THAT(events.kinds, Not(Contains(kind)));
  }
  EXPECT_EQ(events.states, std::set<std::string>{"unread"});
  EXPECT_GT(events.operators, 0);
  const Record processes = record_of(told, 2);
  for (const char* kind : {"gradient", "collective", "sample", "route", "artefact", "batch"}) {
    EXPECT_THAT(processes.kinds, Not(Contains(kind)));
  }
  EXPECT_EQ(processes.operators, 0) << "no callback at any operator";

  EXPECT_EQ(verdicts_of(cases.at(2)).at("levels_agree"), "pass");
  EXPECT_EQ(verdicts_of(cases.at(1)).count("gradients_agree"), 0U);
  EXPECT_THAT(cases.at(1).at("reason").get<std::string>(), HasSubstr("not asked at observe 1"));
  const Told report = program("report", {});
  EXPECT_THAT(report.text, HasSubstr("# CONDITIONAL GO: "));
}

TEST(Observe, AWrongNumberThatCloseWatchingHidesIsNamed) {
  const Installed program;
  const Told told = program("run", {scenario("faults/observer_number"), "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 0) << told.text;
  const nlohmann::json& first = told.out.at("cases").at(0);
  EXPECT_TRUE(first.at("findings").empty()) << first.dump(1);
  const Told again = program("judge", {"last", "--json"});
  EXPECT_EQ(again.out.at("cases").at(1).at("findings").at(0).at("code"), "OBSERVER.EFFECT");
}

TEST(Observe, TheOptionIsShortForTheKey) {
  const Installed program;
  const Told told = program("run",
                            {scenario("ddp_onestep"),
                             "--set",
                             "model={use: toy, n_layers: 2, n_sel: 4, w: 128}",
                             "--profile",
                             "base",
                             "--observe",
                             "0",
                             "--json",
                             "--quiet"});
  EXPECT_EQ(told.exit_code, 0) << told.text;
  EXPECT_THAT(told.out.at("cases").at(0).at("reason").get<std::string>(),
              HasSubstr("not asked at observe 0: gradients_arrived"));
}

}  // namespace
}  // namespace e2e
