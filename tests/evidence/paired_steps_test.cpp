// Steps of ranks that count them differently: the n-th reduction of one rank is the n-th of the others.
#include "harness/evidence/paired_steps.h"

#include <vector>

#include <gtest/gtest.h>

namespace harness {
namespace {

// A rank whose steps ended after so many reductions each; a phase beside every step.
void add_rank(Evidence& evidence,
              int rank,
              const std::vector<std::int64_t>& reductions,
              bool ends_well = true) {
  std::int64_t step = 0;
  if (ends_well) evidence.done.push_back({rank, 99, Done{}});
  for (const std::int64_t so_far : reductions) {
    StepDigest digest;
    digest.step = ++step;
    digest.reductions = so_far;
    evidence.digests.push_back({rank, step, digest});
    evidence.phases.push_back({rank, step, Phase{"forward", step}});
  }
}

std::vector<std::int64_t> steps_of(const Evidence& evidence, int rank) {
  std::vector<std::int64_t> steps;
  for (const auto& row : evidence.phases) {
    if (row.process == rank) steps.push_back(row.row.step);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(PairedSteps, ARankThatKeepsItsGradientsOverAStepLeavesThisStepOut) {
  Evidence evidence;
  add_rank(evidence, 0, {1, 2, 3, 4, 5});
  add_rank(evidence, 1, {1, 2, 4, 5});
  evidence = with_paired_steps(evidence);
  EXPECT_EQ(steps_of(evidence, 0), Steps({1, 2, 3, 4, 5}));
  EXPECT_EQ(steps_of(evidence, 1), Steps({1, 2, 4, 5}));
}

TEST(PairedSteps, WhatIsNotOverIsCountedOnFromTheLastStepThatIs) {
  Evidence evidence;
  add_rank(evidence, 0, {1, 2, 3, 4});
  add_rank(evidence, 1, {1, 3});
  evidence.phases.push_back({1, 9, Phase{"backward", 3}});
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 3, 4}));
}

TEST(PairedSteps, AStepWithoutAReductionKeepsItsPlace) {
  Evidence evidence;
  add_rank(evidence, 0, {1, 2, 3, 4});
  add_rank(evidence, 1, {1, 1, 2, 3});
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 2, 3, 4}));
}

TEST(PairedSteps, SeveralReductionsInEachStepAreOneStep) {
  Evidence evidence;
  add_rank(evidence, 0, {2, 4, 6});
  add_rank(evidence, 1, {2, 4, 6});
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 2, 3}));
}

// It waits in the end for a reduction that does not come.
TEST(PairedSteps, ARankThatReducesOnceMoreLeavesNoStepOut) {
  Evidence evidence;
  add_rank(evidence, 0, {1, 2, 3, 4});
  add_rank(evidence, 1, {1, 3, 4}, false);
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 2, 3}));
}

TEST(PairedSteps, ARankThatReducesOnceLessIsNotTheOneThatOthersFollow) {
  Evidence evidence;
  add_rank(evidence, 0, {1, 1, 2, 3});
  add_rank(evidence, 1, {1, 2, 3, 4});
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 0), Steps({1, 2, 3, 4}));
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 2, 3, 4}));
}

TEST(PairedSteps, WhereNoReductionIsCountedNothingChanges) {
  Evidence evidence;
  add_rank(evidence, 0, {0, 0, 0});
  add_rank(evidence, 1, {0, 0});
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 2}));
}

}  // namespace
}  // namespace harness
