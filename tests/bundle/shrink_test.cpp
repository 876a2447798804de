// The search for a smaller case: what it finds is smallest, it never takes a case that failed otherwise, it ends when
// told to.
#include "harness/bundle/shrink.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/case_json.h"

namespace harness {
namespace {

using testing::HasSubstr;

Case large_case() {
  Case the_case;
  Scenario& scenario = the_case.scenario;
  scenario.name = "large";
  scenario.kind = "training";
  scenario.model.n_layers = 12;
  scenario.model.n_heads = 8;
  scenario.model.n_kv_groups = 4;
  scenario.model.dim = 64;
  scenario.training.steps = 20;
  scenario.training.batch_size = 4;
  scenario.training.seq_len = 512;
  scenario.training.accumulate = 2;
  scenario.parallel.ranks = 4;
  scenario.parallel.checkpoint_layers = {2, 7, 11};
  scenario.requires_gpus = 4;
  FaultRequest fault;
  fault.name = "f";
  fault.layers = {3, 9};
  fault.rank = 2;
  fault.step = 5;
  scenario.fault = fault;
  the_case.id = case_id(the_case);
  return the_case;
}

bool any_case(const Case& /*the_case*/) {
  return true;
}

// Fails where `wanted` says so; every case that is asked for is new.
Shrunk shrunk_where(const std::function<bool(const Scenario&)>& wanted) {
  std::set<std::string> asked;
  return shrink(large_case(), any_case, [&](const Case& one) {
    EXPECT_TRUE(asked.insert(one.id).second) << "tried twice";
    EXPECT_EQ(one.id, case_id(one));
    const bool alike = wanted(one.scenario);
    return TryResult{true, alike, alike ? "FAIL" : "PASS"};
  });
}

TEST(Shrink, WhatNeedsNothingBecomesTheSmallestThereIs) {
  const Shrunk shrunk = shrunk_where([](const Scenario&) { return true; });
  for (const CaseSize& size : all_sizes()) {
    const std::int64_t value = size.of(shrunk.smallest.scenario);
    EXPECT_TRUE(value == size.lowest || value == 0) << size.name << " " << value;
  }
  EXPECT_LE(shrunk.tries.size(), 7U) << "all counts at once";
  EXPECT_FALSE(shrunk.stopped);
}

TEST(Shrink, EachNumberIsAsSmallAsTheFailureAllows) {
  const Shrunk shrunk = shrunk_where([](const Scenario& scenario) {
    return scenario.model.n_layers >= 3 && scenario.training.seq_len >= 60 &&
           scenario.parallel.ranks >= 2 && scenario.model.n_heads >= 2 &&
           scenario.model.mlp_ratio >= 2;
  });
  const Scenario& small = shrunk.smallest.scenario;
  EXPECT_EQ(small.model.n_layers, 3);
  EXPECT_EQ(small.training.seq_len, 64) << "halves of 512";
  EXPECT_EQ(small.parallel.ranks, 2);
  EXPECT_EQ(small.model.n_heads, 2);
  EXPECT_EQ(small.model.mlp_ratio, 2);
  EXPECT_EQ(small.training.steps, 1);
  EXPECT_EQ(small.training.batch_size, 1);
}

TEST(Shrink, WhatBelongsToANumberGoesWithIt) {
  const Shrunk shrunk =
      shrunk_where([](const Scenario& scenario) { return scenario.model.n_layers >= 6; });
  const Scenario& small = shrunk.smallest.scenario;
  ASSERT_EQ(small.model.n_layers, 6);
  EXPECT_EQ(small.parallel.checkpoint_layers, (std::vector<int>{2, 5}));
  EXPECT_EQ(small.fault->layers, (std::vector<int>{3, 5}));
  EXPECT_EQ(small.fault->rank, 0);
  EXPECT_EQ(small.fault->step, 1);
  EXPECT_EQ(small.requires_gpus, 1);
  EXPECT_EQ(small.model.n_heads % small.model.n_kv_groups, 0);
}

TEST(Shrink, ACaseThatFailsOtherwiseIsNotTaken) {
  const Shrunk shrunk = shrunk_where([](const Scenario&) { return false; });
  EXPECT_EQ(shrunk.smallest, large_case());
  EXPECT_FALSE(shrunk.tries.empty());
  for (const ShrinkTry& one : shrunk.tries) EXPECT_FALSE(one.alike);
}

TEST(Shrink, WhatCannotRunIsNotTried) {
  const auto is_valid = [](const Case& one) { return one.scenario.training.seq_len == 512; };
  const Shrunk shrunk = shrink(large_case(), is_valid, [&](const Case& one) {
    EXPECT_TRUE(is_valid(one));
    return TryResult{true, true, "FAIL"};
  });
  EXPECT_EQ(shrunk.smallest.scenario.training.seq_len, 512);
  EXPECT_EQ(shrunk.smallest.scenario.model.n_layers, 1);
}

TEST(Shrink, ItEndsWhenItIsTold) {
  int tries = 0;
  const Shrunk shrunk = shrink(large_case(), any_case, [&](const Case& /*one*/) {
    ++tries;
    return TryResult{tries < 3, true, "FAIL"};
  });
  EXPECT_EQ(tries, 3);
  EXPECT_TRUE(shrunk.stopped);
  EXPECT_EQ(shrunk.tries.size(), 2U) << "the one that was not made is none";
  EXPECT_EQ(shrunk.smallest.scenario.model.n_layers, 1);
}

TEST(Shrink, ChangesAreToldByTheScenariosNames) {
  const Shrunk shrunk = shrunk_where([](const Scenario&) { return true; });
  const std::string text =
      size_changes(sizes_of(large_case().scenario), sizes_of(shrunk.smallest.scenario));
  EXPECT_THAT(text, HasSubstr("model.n_layers 12 -> 1"));
  EXPECT_THAT(text, HasSubstr("training.seq_len 512 -> 2"));
}

TEST(Shrink, HeadsAreSharedOutOverGroupsThatLeaveNoneOver) {
  for (const CaseSize& size : all_sizes()) {
    if (std::string(size.name) != "model.n_heads") continue;
    Scenario scenario = large_case().scenario;  // 8 heads in 4 groups
    for (const std::int64_t heads : {6, 2, 1}) {
      size.make(scenario, heads);
      EXPECT_EQ(scenario.model.n_heads, heads);
      EXPECT_EQ(scenario.model.n_heads % scenario.model.n_kv_groups, 0) << heads;
    }
  }
}

TEST(Shrink, OnlyWhatTheKindHeedsIsTried) {
  const auto names_of_kind = [](const char* kind) {
    Scenario scenario = large_case().scenario;
    scenario.kind = kind;
    std::vector<std::string> names;
    for (const auto& [name, value] : sizes_of(scenario)) names.push_back(name);
    return names;
  };
  using testing::Contains;
  using testing::Not;
  EXPECT_THAT(names_of_kind("kernel"), testing::ElementsAre("model.n_kv_groups", "model.n_heads"));
  EXPECT_THAT(names_of_kind("attention"), Not(Contains("model.mlp_ratio")));
  EXPECT_THAT(names_of_kind("decode"), Not(Contains("training.steps")));
  EXPECT_THAT(names_of_kind("training"), Contains("training.steps"));
}

TEST(Shrink, ASweepLosesItsLargestSizes) {
  Case sweep = large_case();
  sweep.scenario.kind = "sweep";
  sweep.scenario.sweep.seq_len = {32, 64, 128, 256};
  sweep.id = case_id(sweep);
  const Shrunk shrunk = shrink(sweep, any_case, [&](const Case& one) {
    return TryResult{true, one.scenario.sweep.seq_len.size() >= 2, ""};
  });
  EXPECT_EQ(shrunk.smallest.scenario.sweep.seq_len, (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(shrunk.smallest.scenario.training.seq_len, 512) << "nobody reads it";
}

}  // namespace
}  // namespace harness
