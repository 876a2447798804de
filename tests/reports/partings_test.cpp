// Where two trainings part: the first step, what differs first in the order of a step, on which ranks, and the parameters that the next
// recorded step names; folded records and records of other lengths.
#include "reports/partings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/long_runs.h"

namespace {

using harness::Event;
using harness::Evidence;
using reports::find_parting;
using reports::Training;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kFrom = 20;

// One thing of all steps from kFrom on, on the ranks that `is_changed` gives.
template <typename Row>
fakes::Change changed(
    const std::function<void(Row&)>& change,
    const std::function<bool(int)>& is_changed = [](int) { return true; }) {
  return [=](int rank, std::vector<Event>& events) {
    for (Event& event : events) {
      if (event.kind != Row::kKind || !is_changed(rank)) continue;
      Row row = event.body.get<Row>();
      if (row.step < kFrom) continue;
      change(row);
      event = Event::of(event.process, event.t_ms, row);
    }
  };
}

Training run_of(const fakes::Change& change = {}, std::int64_t steps = 100) {
  fakes::LongRun run;
  run.steps = steps;
  return {fakes::evidence_of(fakes::events_of(run, change)), ""};
}

Training folded_run(const fakes::Change& change = {}) {
  const harness::StepFold::Limits limits{8, 64};
  return {
      fakes::evidence_of(fakes::folded(fakes::events_of(fakes::LongRun{}, change), 500, limits)),
      ""};
}

TEST(Partings, EqualRunsHaveNone) {
  const auto found = find_parting("train", run_of(), run_of());
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->step.has_value());
  EXPECT_EQ(found->steps, 100);
  EXPECT_THAT(reports::partings_text({*found}), HasSubstr("the same in each of 100 steps"));
}

TEST(Partings, OfAShorterRunItsStepsAreCompared) {
  EXPECT_EQ(find_parting("train", run_of({}, 30), run_of())->steps, 30);
  EXPECT_FALSE(find_parting("train", Training(), run_of()).has_value());
}

TEST(Partings, WhatDiffersFirstInTheOrderOfAStepIsNamed) {
  const auto gradients = changed<harness::StepDigest>([](harness::StepDigest& row) {
    row.gradients = {"other"};
    row.parameters += "other";
  });
  const auto found = find_parting("train", run_of(), run_of(gradients));
  EXPECT_EQ(found->step, kFrom);
  EXPECT_EQ(found->what, "reduced gradients");
  EXPECT_THAT(found->same, ElementsAre("what the model is called with", "buffers", "the loss"));
  EXPECT_THAT(found->ranks, ElementsAre(0, 1));
  EXPECT_EQ(found->last_same, kFrom - 1);
  EXPECT_THAT(found->tensors, IsEmpty());  // those that were recorded one by one are the same
}

TEST(Partings, TheRanksAreNamed) {
  const auto one = changed<harness::StepDigest>(
      [](harness::StepDigest& row) { row.inputs += "other"; }, [](int rank) { return rank == 1; });
  const auto found = find_parting("train", run_of(), run_of(one));
  EXPECT_EQ(found->what, "what the model is called with");
  EXPECT_THAT(found->ranks, ElementsAre(1));
}

TEST(Partings, TheNextRecordedStepNamesTheParameters) {
  const auto loss =
      changed<harness::Sample>([](harness::Sample& row) { row.value = row.value + 1.0; });
  const auto gradient =
      changed<harness::Gradient>([](harness::Gradient& row) { row.hash_after += "other"; });
  const auto both = [&](int rank, std::vector<Event>& events) {
    loss(rank, events);
    gradient(rank, events);
  };
  const auto found = find_parting("train", run_of(), run_of(both));
  EXPECT_EQ(found->step, kFrom);
  EXPECT_EQ(found->what, "the loss");
  EXPECT_EQ(found->recorded, 50);
  EXPECT_THAT(found->tensors, ElementsAre("w"));
  const std::string text = reports::partings_text({*found});
  EXPECT_THAT(text, HasSubstr("part in step 20. There the loss differs on ranks 0-1"));
  EXPECT_THAT(text, HasSubstr("In step 50, 1 of 1 tensor differ: w."));
}

TEST(Partings, FoldedStepsTellTheirLosses) {
  const auto loss =
      changed<harness::Sample>([](harness::Sample& row) { row.value = row.value + 1.0; });
  const Training folded = folded_run();
  ASSERT_FALSE(folded.evidence.stretches.empty());
  EXPECT_FALSE(find_parting("train", folded, run_of())->step.has_value());
  const auto found = find_parting("train", folded, folded_run(loss));
  EXPECT_EQ(found->step, kFrom);
  EXPECT_EQ(found->what, "the loss");
  EXPECT_THAT(found->ranks, ElementsAre(0));  // the losses of the first rank stay
  EXPECT_LT(*found->last_same, kFrom);
}

}  // namespace
