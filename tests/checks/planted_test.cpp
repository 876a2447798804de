// The table of planted defects against every check, and the laws that hold for all of them.
#include "tests/checks/planted.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "harness/judge/expectation.h"
#include "tests/checks/made_steps.h"
#include "tests/checks/planted_fixtures.h"

namespace {

using fixtures::Planted;
using harness::Verdict;

std::string text_of(const harness::CheckResult& result) {
  return nlohmann::json(result).dump();
}

class PlantedCase : public testing::TestWithParam<std::size_t> {
 protected:
  const Planted& planted() const { return fixtures::all_planted()[GetParam()]; }
  void expect_as_planted(const harness::CheckResult& result) const;
};

void PlantedCase::expect_as_planted(const harness::CheckResult& result) const {
  EXPECT_EQ(harness::name_of(result.verdict), std::string(harness::name_of(planted().verdict)))
      << result.reason;
  EXPECT_FALSE(result.reason.empty());
  if (planted().code.empty()) {
    EXPECT_TRUE(result.findings.empty()) << text_of(result);
    return;
  }
  ASSERT_FALSE(result.findings.empty()) << result.reason;
  const harness::Finding& first = result.findings.front();
  EXPECT_EQ(first.code, planted().code) << first.statement;
  const auto wanted = nlohmann::json::parse(planted().site).get<harness::Site>();
  EXPECT_TRUE(harness::site_matches(wanted, first.site)) << first.site.text();
  EXPECT_FALSE(first.statement.empty());
  EXPECT_FALSE(first.next_action.empty());
}

// What the judgement must not depend on: the order of rows, rows that no check knows, and what was planted.
void shuffle_rows(harness::Evidence& e) {
  std::mt19937 random(5);
  const auto shuffle = [&](auto& rows) { std::shuffle(rows.begin(), rows.end(), random); };
  shuffle(e.gradients), shuffle(e.buckets), shuffle(e.collectives), shuffle(e.collectives_done);
  shuffle(e.digests), shuffle(e.tensor_digests);
  shuffle(e.parameters), shuffle(e.batches), shuffle(e.routes), shuffle(e.exposures),
      shuffle(e.artefacts);
  shuffle(e.samples), shuffle(e.errors), shuffle(e.exited), shuffle(e.observations),
      shuffle(e.heartbeats);
  shuffle(e.phases), shuffle(e.done), shuffle(e.started);
  shuffle(e.nan_births), shuffle(e.mutations), shuffle(e.gates), shuffle(e.updates),
      shuffle(e.reads), shuffle(e.facts);
  shuffle(e.recomputes), shuffle(e.in_place), shuffle(e.states), shuffle(e.snapshots);
}

void rename_what_was_planted(harness::Evidence& e) {
  harness::Scenario& scenario = e.the_case.scenario;
  scenario.name = scenario.about = scenario.text = "averaged_twice";
  scenario.fault = harness::FaultRequest{};
  scenario.fault->name = "averaged_twice";
  scenario.expect = harness::Expectation{harness::Outcome::pass, "GRAD.SCALE", {}};
  fixtures::put(e.faults_fired, 0, harness::FaultFired{9});
}

void add_unrelated_rows(harness::Evidence& e) {
  fixtures::put(e.facts, 0, harness::Fact{"weather", "fine"});
  fixtures::put(e.rejected, 1, harness::Fact{"line", "garbage"});
  e.routes.push_back({0, 100, harness::RouteUse{"a_plugin's", 0, "reference", 1, 1}});
}

// The changes together, since a judgement takes seconds; one by one only where they made a difference.
TEST_P(PlantedCase, GivesVerdictCodeAndSiteWhateverTheOrderOfRowsAndTheNames) {
  fixtures::Healthy healthy(planted().ranks, planted().steps, planted().kind);
  planted().spoil(healthy);
  const harness::CheckResult result = fixtures::run(planted().check, healthy.evidence);
  expect_as_planted(result);
  const std::string before = text_of(result);
  harness::Evidence changed = healthy.evidence;
  rename_what_was_planted(changed);
  add_unrelated_rows(changed);
  shuffle_rows(changed);
  const std::string after = text_of(fixtures::run(planted().check, changed));
  EXPECT_EQ(after, before);
  if (after == before) return;
  for (const auto& [what, change] : {std::pair{"names", &rename_what_was_planted},
                                     std::pair{"unrelated rows", &add_unrelated_rows},
                                     std::pair{"order of rows", &shuffle_rows}}) {
    changed = healthy.evidence;
    change(changed);
    EXPECT_EQ(text_of(fixtures::run(planted().check, changed)), before) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Table,
                         PlantedCase,
                         testing::Range<std::size_t>(0, fixtures::all_planted().size()),
                         [](const testing::TestParamInfo<std::size_t>& at) {
                           const Planted& planted = fixtures::all_planted()[at.param];
                           std::string name = planted.check + "_" + planted.name;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(Planted, EveryCheckHasAPassADefectAndMissingEvidence) {
  std::map<std::string, std::set<Verdict>> seen;
  for (const Planted& planted : fixtures::all_planted())
    seen[planted.check].insert(planted.verdict);
  for (const harness::Check& check : harness::all_checks()) {
    EXPECT_TRUE(seen[check.name].count(Verdict::pass)) << check.name;
    EXPECT_TRUE(seen[check.name].count(Verdict::inconclusive)) << check.name;
    EXPECT_EQ(seen[check.name].count(Verdict::fail) > 0, !check.codes.empty()) << check.name;
    seen.erase(check.name);
  }
  EXPECT_TRUE(seen.empty()) << "planted for a check that is not in the list: "
                            << seen.begin()->first;
}

TEST(Planted, NothingRecordedIsNeverAPass) {
  harness::Evidence empty;
  empty.the_case.scenario.model = fixtures::toy_model();
  empty.the_case.scenario.training.seq_len = fixtures::kLength;
  for (const harness::Check& check : harness::all_checks()) {
    EXPECT_EQ(check.judge(empty).verdict, Verdict::inconclusive) << check.name;
    EXPECT_FALSE(check.judge(empty).reason.empty()) << check.name;
  }
}

TEST(ProcessClean, PlacesNoEndInTheLifeBefore) {
  fixtures::Healthy healthy;
  healthy.ends(1, 0, SIGSEGV, false);
  std::erase_if(healthy.evidence.phases, [](const auto& row) { return row.process == 1; });
  fixtures::put(healthy.evidence.phases, 1, harness::Phase{"save", 1}, 200);
  fixtures::put(healthy.evidence.relaunches,
                harness::kController,
                harness::Relaunched{1, "killed in step 1, phase save"},
                300);
  const auto result = fixtures::run("process_clean", healthy.evidence);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].code, "CRASH.SIGNAL");
  EXPECT_EQ(result.findings[0].site.phase, "")
      << "where it was killed on purpose is not where it died";
}

// A norm2 that reads another tensor than it should passes its gradient on to that one.
TEST(StepIsOracle, AStageThatReadsElsewhereMakesNoGradientOfItsBlockWrong) {
  fixtures::Training training;
  training.stage = [](int layer, const std::string& tensor, oracles::Tensor& made) {
    if (layer != 1 || (tensor != "normed" && tensor != "d.x")) return;
    for (double& x : made.data) x *= 1.5;
  };
  fixtures::Healthy healthy;
  fixtures::StepMaker(healthy, training).write();
  const auto result = fixtures::run("step_is_oracle", healthy.evidence);
  ASSERT_EQ(result.findings.size(), 1U) << text_of(result);
  EXPECT_EQ(result.findings[0].code, "NUMERIC.FORWARD");
  EXPECT_EQ(result.findings[0].site.op, "norm2");
}

// "Added up, not averaged" would make the first micro-batch wrong too.
TEST(StepIsOracle, NamesNoLawThatAMicroBatchRefutes) {
  fixtures::Training training;
  training.accumulate = 2;
  training.of_micro = [](std::size_t micro) { return micro == 1 ? 2.0 : 1.0; };
  fixtures::Healthy healthy;
  fixtures::StepMaker(healthy, training).write();
  const auto result = fixtures::run("step_is_oracle", healthy.evidence);
  ASSERT_FALSE(result.findings.empty());
  EXPECT_EQ(result.findings[0].code, "LOSS.WRONG") << text_of(result);
  EXPECT_EQ(result.findings[0].site.op, "accumulate");
  EXPECT_FALSE(result.findings[0].site.detail.contains("law")) << text_of(result);
}

// A count that was told wrong once, and goes on from there, is wrong in that step alone.
TEST(StepIsOracle, ACountGoesOnFromTheOneThatWasTold) {
  fixtures::Training training;
  training.precision = nsa::Precision::fp16;
  fixtures::Healthy healthy;
  fixtures::StepMaker(healthy, training).write();
  for (auto& row : healthy.evidence.states) {
    if (row.row.part != "scaler") continue;
    row.row.hash = "65536 " + std::to_string(row.row.step - 1) + " 0";
  }
  const auto result = fixtures::run("step_is_oracle", healthy.evidence);
  ASSERT_EQ(result.findings.size(), 1U) << text_of(result);
  EXPECT_EQ(result.findings[0].site.op, "told_row");
  EXPECT_EQ(result.findings[0].site.step, 1);
  EXPECT_FALSE(result.findings[0].site.detail.contains("steps")) << text_of(result);
}

TEST(CloseToOracle, SaysThatRowsWithoutAListOfBlocksAreNotJudged) {
  fixtures::Healthy healthy(1, 1, "attention");
  fixtures::LayerTensors layer = fixtures::healthy_layer(0, 1);
  const std::size_t last = layer.blocks.data.size() - 4;
  layer.blocks.data.at(last + 1) = layer.blocks.data.at(last);
  healthy.write_layer(0, 1, 0, 1, layer);
  const auto result = fixtures::run("close_to_oracle", healthy.evidence);
  EXPECT_TRUE(std::any_of(result.not_judged.begin(), result.not_judged.end(), [](const auto& one) {
    return one.site.op == "attend_sel" && one.site.layers == std::vector<int>{1};
  }));
}

TEST(ReadsCount, WhatIsCountedTwiceIsReadAtNoOtherPosition) {
  fixtures::Healthy healthy(1, 1, "decode");
  for (auto& row : healthy.evidence.reads) {
    if (row.row.branch == "cmp") row.row.tokens *= 2;
  }
  const auto result = fixtures::run("reads_count", healthy.evidence);
  ASSERT_EQ(result.findings.size(), 1U) << text_of(result);
  EXPECT_FALSE(result.findings[0].site.detail.contains("parts")) << text_of(result);
}

TEST(CheckpointEqual, TellsOfEveryLayerHowWrongItsGradientsAre) {
  fixtures::Healthy healthy;
  fixtures::checkpoint(healthy, {0, 1, 2});
  fixtures::gradients_differ(healthy, 1, 0.5F);
  std::map<std::string, double> share;  // of the limit
  for (const auto& seen : fixtures::run("checkpoint_equal", healthy.evidence).measured) {
    if (seen.limit) share[seen.name] = seen.value / *seen.limit;
  }
  EXPECT_GT(share.at("gradient_error_layer_0"), 1000.0);
  EXPECT_GT(share.at("gradient_error_layer_1"), 1000.0);
  EXPECT_EQ(share.at("gradient_error_layer_2"), 0.0);
}

}  // namespace
