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

// Ranks 0 and 1.
Evidence two_ranks(const Steps& first, const Steps& second, bool second_ends_well = true) {
  Evidence evidence;
  add_rank(evidence, 0, first);
  add_rank(evidence, 1, second, second_ends_well);
  return evidence;
}

TEST(PairedSteps, ARankThatKeepsItsGradientsOverAStepLeavesThisStepOut) {
  const Evidence paired = with_paired_steps(two_ranks({1, 2, 3, 4, 5}, {1, 2, 4, 5}));
  EXPECT_EQ(steps_of(paired, 0), Steps({1, 2, 3, 4, 5}));
  EXPECT_EQ(steps_of(paired, 1), Steps({1, 2, 4, 5}));
}

TEST(PairedSteps, WhatIsNotOverIsCountedOnFromTheLastStepThatIs) {
  Evidence evidence = two_ranks({1, 2, 3, 4}, {1, 3});
  evidence.phases.push_back({1, 9, Phase{"backward", 3}});
  EXPECT_EQ(steps_of(with_paired_steps(evidence), 1), Steps({1, 3, 4}));
}

TEST(PairedSteps, AStepWithoutAReductionKeepsItsPlace) {
  const Evidence paired = with_paired_steps(two_ranks({1, 2, 3, 4}, {1, 1, 2, 3}));
  EXPECT_EQ(steps_of(paired, 1), Steps({1, 2, 3, 4}));
}

TEST(PairedSteps, SeveralReductionsInEachStepAreOneStep) {
  EXPECT_EQ(steps_of(with_paired_steps(two_ranks({2, 4, 6}, {2, 4, 6})), 1), Steps({1, 2, 3}));
}

// It waits in the end for a reduction that does not come.
TEST(PairedSteps, ARankThatReducesOnceMoreLeavesNoStepOut) {
  const Evidence paired = with_paired_steps(two_ranks({1, 2, 3, 4}, {1, 3, 4}, false));
  EXPECT_EQ(steps_of(paired, 1), Steps({1, 2, 3}));
}

TEST(PairedSteps, ARankThatReducesOnceLessIsNotTheOneThatOthersFollow) {
  const Evidence paired = with_paired_steps(two_ranks({1, 1, 2, 3}, {1, 2, 3, 4}));
  EXPECT_EQ(steps_of(paired, 0), Steps({1, 2, 3, 4}));
  EXPECT_EQ(steps_of(paired, 1), Steps({1, 2, 3, 4}));
}

TEST(PairedSteps, WhereNoReductionIsCountedNothingChanges) {
  EXPECT_EQ(steps_of(with_paired_steps(two_ranks({0, 0, 0}, {0, 0})), 1), Steps({1, 2}));
}

}  // namespace
}  // namespace harness
