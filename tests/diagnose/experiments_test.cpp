// The table of experiments: every row changes what it says, gives a case that can be read, and leaves alone what was
// planted.
#include "harness/diagnose/experiments.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/experiment.h"
#include "nsa/base/error.h"
#include "tests/diagnose/worlds.h"

namespace fixtures {
namespace {

using harness::all_experiments;
using harness::begins_with_any;
using harness::Change;
using harness::Experiment;
using testing::HasSubstr;

void expect_sound(const Experiment& row, const Case& base, const Change& change) {
  const std::string what = change.what.empty() ? row.what : change.what;
  ASSERT_FALSE(what.empty()) << row.question;
  for (const Scenario& changed : {change.without, change.with.value_or(base.scenario)}) {
    EXPECT_EQ(changed.fault, base.scenario.fault) << what << " touches what was planted";
    const Case read = harness::experiment_on(base, changed, what);
    EXPECT_EQ(read.scenario.fault, base.scenario.fault) << what;
    EXPECT_TRUE(harness::is_experiment(read));
    EXPECT_EQ(harness::label_of_base(read), base.label());
  }
  EXPECT_NE(change.without, change.with.value_or(base.scenario)) << what;
  EXPECT_NE(harness::difference(base.scenario, change.without), "") << what;
}

TEST(Experiments, EveryRowChangesTheCaseAndNothingThatWasPlanted) {
  Case training = rich_case();
  training.scenario.parallel.ranks = 4;
  Case alone = rich_case();
  alone.scenario.kind = "attention";
  alone.scenario.attention.inputs = "ties";
  Case gated = alone;
  gated.scenario.attention.gate = "sel";
  gated.scenario.model.gate = nsa::Gate::head_sigmoid;
  gated.scenario.model.gate_temp = 2;
  gated.scenario.model.eq9 = nsa::Eq9::overlap;
  alone.scenario.attention.poison = true;
  alone.scenario.training.batch_size = 2;
  Case packed = rich_case();
  packed.scenario.training.precision = nsa::Precision::fp32;
  packed.scenario.parallel.checkpoint_layers.clear();
  packed.scenario.training.data.packed = 2;
  packed.scenario.training.data.replicated = true;
  packed.scenario.model.tied_head = true;
  packed.scenario.model.dropout = 0.1;
  Case masked = rich_case();
  masked.scenario.training.data.loss_mask = nsa::DataConfig::LossMask::ragged;
  masked.scenario.training.seq_len = 60;
  std::set<std::string> never;
  for (const Experiment& row : all_experiments())
    never.insert(row.what + std::string(row.question));
  for (const Case& base : {training, alone, gated, packed, masked}) {
    for (const Experiment& row : all_experiments()) {
      for (const auto& [layers, ranks] :
           {std::pair{std::vector{2}, std::vector{2}}, {std::vector<int>(), std::vector<int>()}}) {
        Cause symptom = cause_at("CLIP.WRONG", layers);
        symptom.site.ranks = ranks;
        for (const Change& change : row.changes(base.scenario, symptom)) {
          expect_sound(row, base, change);
          never.erase(row.what + std::string(row.question));
        }
      }
    }
  }
  // What only a card has.
  EXPECT_THAT(never,
              testing::ElementsAre(HasSubstr("NCCL"), HasSubstr("CUDA graph"), HasSubstr("card")));
}

TEST(Experiments, APlainCaseHasNoOptionToTakeAway) {
  Case plain = rich_case();
  plain.scenario.parallel = nsa::ParallelConfig();
  plain.scenario.parallel.ranks = 1;
  plain.scenario.route = {{"attend_sel", "reference"}, {"grad_sync", "reference"}};
  plain.scenario.training.accumulate = 1;
  plain.scenario.training.precision = nsa::Precision::fp32;
  plain.scenario.model.rope_scale = 1;
  plain.scenario.model.phi = nsa::ModelConfig().phi;
  plain.scenario.model.n_kv_groups = plain.scenario.model.n_heads = 1;
  plain.scenario.model.w = plain.scenario.training.seq_len;
  plain.scenario.fault.reset();
  std::vector<std::string> asked;
  for (const Experiment& row : all_experiments()) {
    if (row.only_of == "CLIP." || row.only_of == "HANG. SLOW.") continue;
    for (const Change& change : row.changes(plain.scenario, cause_at("NUMERIC.FORWARD"))) {
      asked.push_back(change.what.empty() ? row.what : change.what);
    }
  }
  EXPECT_THAT(asked, testing::ElementsAre("what this seed draws", "the code of attend_sel"));
}

// Which stages are asked of a failure with this op and branch.
std::vector<std::string> stages_of(const std::string& op, const std::string& branch) {
  Scenario scenario = rich_case().scenario;
  for (const char* seam : {"compress", "score", "select", "attend_cmp", "attend_sel", "attend_win"})
    scenario.route[seam] = "reference";
  scenario.route["attend_cmp"] = "sdpa";  // of which the plain one is asked
  Cause symptom = cause_at("NUMERIC.FORWARD", {0});
  symptom.site.op = op;
  symptom.site.branch = branch;
  std::vector<std::string> asked;
  for (const Experiment& row : all_experiments()) {
    if (row.question != std::string("Which stage?")) continue;
    if (!begins_with_any(symptom.code, row.only_of)) continue;
    for (const Change& change : row.changes(scenario, symptom)) {
      if (change.what.starts_with("the code of")) asked.push_back(change.what.substr(12));
      EXPECT_THAT(harness::difference(scenario, change.without), HasSubstr("-> \"by_hand\""));
    }
  }
  return asked;
}

TEST(Experiments, AStageIsAskedWhereTheFindingDoesNotNameAnother) {
  using testing::ElementsAre;
  EXPECT_THAT(stages_of("score", "sel"), ElementsAre("score"));
  EXPECT_THAT(stages_of("rope", "sel"), testing::IsEmpty());
  EXPECT_THAT(stages_of("attend_cmp", "cmp"), testing::IsEmpty());
  EXPECT_THAT(stages_of("softmax", "sel"), ElementsAre("score", "select", "attend_sel"));
  EXPECT_THAT(stages_of("", ""),
              ElementsAre("compress", "score", "select", "attend_sel", "attend_win"));
}

TEST(Experiments, ALayerThatIsTheLowestOrIsNotAloneIsNotLeftOut) {
  for (const std::vector<int>& layers : {std::vector{0}, std::vector{1, 2}, std::vector<int>()}) {
    for (const Experiment& row : all_experiments()) {
      if (row.question != std::string("Which layer?")) continue;
      EXPECT_TRUE(row.changes(rich_case().scenario, cause_at("NUMERIC.FORWARD", layers)).empty());
    }
  }
}

// The places that failed are still there in a longer sequence, and a sequence in a wider window.
TEST(Experiments, AnEdgeOfTheSizesIsTakenAwayBySizesThatAreNotSmaller) {
  Scenario scenario = rich_case().scenario;
  scenario.training.seq_len = 60;
  scenario.training.batch_size = 2;
  std::vector<std::string> changes;
  for (const Experiment& row : all_experiments()) {
    if (row.question != std::string("Which sizes?")) continue;
    EXPECT_TRUE(begins_with_any("CAUSALITY.LEAK", row.only_of)) << row.what;
    EXPECT_FALSE(begins_with_any("DESYNC.SIZE", row.only_of)) << row.what;
    for (const Change& change : row.changes(scenario, cause_at("CAUSALITY.LEAK")))
      changes.push_back(harness::difference(scenario, change.without));
  }
  EXPECT_THAT(changes,
              testing::ElementsAre("training.seq_len 60 -> 64",
                                   "model.w 32 -> 64",
                                   "model.n_kv_groups 2 -> 1",
                                   "model.n_kv_groups 2 -> 4",
                                   "training.batch_size 2 -> 1"));
}

TEST(Experiments, ADifferenceNamesEveryValue) {
  Scenario changed = rich_case().scenario;
  changed.model.n_layers = 2;
  changed.parallel.checkpoint_layers = {0, 1};
  EXPECT_EQ(harness::difference(rich_case().scenario, changed),
            "model.n_layers 4 -> 2, parallel.checkpoint.layers [0,1,2,3] -> [0,1]");
  Scenario more = rich_case().scenario;
  more.route["transport"] = "by_hand";
  EXPECT_EQ(harness::difference(rich_case().scenario, more), "route.transport null -> \"by_hand\"");
}

TEST(Experiments, ACodeBeginsWithOneOfTheWords) {
  EXPECT_TRUE(begins_with_any("GRAD.SCALE", "COMM. GRAD."));
  EXPECT_FALSE(begins_with_any("GRAD.SCALE", "COMM. GRAD.NOT_REDUCED"));
  EXPECT_FALSE(begins_with_any("GRAD.SCALE", ""));
}

// A fault may name a layer that an experiment took away; a scenario that does so is refused.
TEST(Experiments, OnlyAnExperimentMayHaveLostThePlaceOfWhatWasPlanted) {
  Scenario fewer = rich_case().scenario;
  fewer.model.n_layers = 1;
  fewer.parallel.checkpoint_layers = {0};
  fewer.parallel.ranks = 1;
  fewer.training.steps = 1;
  EXPECT_NO_THROW((void)harness::experiment_on(rich_case(), fewer, "less"));
  Case plain = rich_case();
  plain.scenario = fewer;
  EXPECT_THROW((void)harness::case_from_json(harness::case_to_json(plain), "plain"), nsa::Error);
}

}  // namespace
}  // namespace fixtures
