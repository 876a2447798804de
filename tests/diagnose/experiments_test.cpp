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
  std::set<std::string> never;
  for (const Experiment& row : all_experiments())
    never.insert(row.what + std::string(row.question));
  for (const Case& base : {training, alone, gated}) {
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
  plain.scenario.fault.reset();
  std::vector<std::string> asked;
  for (const Experiment& row : all_experiments()) {
    if (!row.only_of.empty()) continue;
    for (const Change& change : row.changes(plain.scenario, cause_at("NUMERIC.FORWARD"))) {
      asked.push_back(change.what.empty() ? row.what : change.what);
    }
  }
  EXPECT_THAT(asked, testing::ElementsAre("what this seed draws"));
}

TEST(Experiments, ALayerThatIsTheLowestOrIsNotAloneIsNotLeftOut) {
  for (const std::vector<int>& layers : {std::vector{0}, std::vector{1, 2}, std::vector<int>()}) {
    for (const Experiment& row : all_experiments()) {
      if (row.question != std::string("Which layer?")) continue;
      EXPECT_TRUE(row.changes(rich_case().scenario, cause_at("NUMERIC.FORWARD", layers)).empty());
    }
  }
}

TEST(Experiments, ADifferenceNamesEveryValue) {
  Scenario changed = rich_case().scenario;
  changed.model.n_layers = 2;
  changed.parallel.checkpoint_layers = {0, 1};
  EXPECT_EQ(harness::difference(rich_case().scenario, changed),
            "model.n_layers 4 -> 2, parallel.checkpoint.layers [0,1,2,3] -> [0,1]");
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
