// The kernels, emulated, against the oracle: forward and all gradients, whole and step by step. A few cases that together reach
// every branch of the code; tests/gpu/kernels_check.cpp has the wide grid on a card.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/kernels/judge/judge.h"
#include "tests/kernels/judge/run.h"
#include "tests/kernels/judge/truth.h"

namespace judge {
namespace {

using nsa::kernels::Problem;

Case small_case() {
  Case one;
  one.name = "small";
  Problem& p = one.problem;
  p.groups = 2;
  p.heads = 3;
  p.d_k = 64;
  p.d_v = 64;
  p.l = 16;
  p.d = 8;
  p.l_sel = 32;
  p.n_sel = 4;
  p.w = 40;
  one.lengths = {150};
  return one;
}

void expect_true(Case one, bool steps, const RunOptions& options = {}) {
  settle(one);
  const CaseInputs inputs = make_inputs(one);
  const Run run = steps ? run_steps(one, inputs) : run_whole(one, inputs, options);
  for (const auto& problem : run.problems) ADD_FAILURE() << problem;
  const AllOutcomes right = truth(one, inputs, run.outcome);
  const Rounded rounded = rounded_outcomes(one, inputs, run.outcome, !steps);
  const Verdict verdict = judge::judge(one, inputs, {run.outcome, right, rounded});
  EXPECT_FALSE(verdict.measures.empty());
  for (const auto& failure : verdict.failures) ADD_FAILURE() << failure;
}

TEST(EmulatedAttention, OneSequence) {
  expect_true(small_case(), false);
}

TEST(EmulatedAttention, StepByStep) {
  Case one = small_case();
  one.lengths = {100};
  expect_true(one, true);
}

TEST(EmulatedAttention, SequencesOfManyLengths) {
  Case one = small_case();
  one.problem.varlen = true;
  one.problem.heads = 6;
  one.lengths = {0, 1, 15, 70, 0, 33};
  one.layout = Layout::with_gaps;
  expect_true(one, false);
  one.lengths = {16, 0, 65};
  expect_true(one, true);
}

TEST(EmulatedAttention, ChunksOfQueriesGiveTheSameTruth) {
  Case one = small_case();
  one.lengths = {130, 130};
  one.problem.chunk_bytes = 1;
  one.layout = Layout::heads_first;
  expect_true(one, false, {.repeats = 2});
}

// The first queries see no compressed token: a branch without keys lies between two that have some.
TEST(EmulatedAttention, OneBlockDoesAllBranchesOfATile) {
  Case one = small_case();
  one.problem.least_joined_tiles = 0;
  expect_true(one, false);
  one.problem.varlen = true;
  one.problem.heads = 6;
  one.lengths = {0, 1, 15, 70, 0, 33};
  expect_true(one, false);
}

TEST(EmulatedAttention, WithoutSavedOutputs) {
  expect_true(small_case(), false, {.saves = false});
}

TEST(EmulatedAttention, LaterFirstPosition) {
  Case one = small_case();
  one.problem.first = 75;
  one.lengths = {9};
  one.backward = false;
  expect_true(one, false);
}

TEST(EmulatedAttention, WeightedPoolingAndGatesOfHeads) {
  Case one = small_case();
  one.problem.phi = nsa::kernels::Phi::conv;
  one.problem.gate_form = nsa::kernels::GateForm::per_head;
  one.problem.gate_type = nsa::kernels::GateType::float32;
  one.problem.overlap = nsa::kernels::Overlap::per_stride;
  one.problem.d_v = 24;
  one.problem.d_k = 40;
  one.lengths = {90};
  expect_true(one, false);
}

TEST(EmulatedAttention, InputsThatCanFail) {
  for (const Pattern pattern :
       {Pattern::sharp, Pattern::ties, Pattern::integers, Pattern::one_hot, Pattern::equal_keys}) {
    Case one = small_case();
    one.pattern = pattern;
    one.problem.groups = 1;
    one.problem.heads = 2;
    one.lengths = {200};
    SCOPED_TRACE(static_cast<int>(pattern));
    expect_true(one, false);
  }
}

TEST(EmulatedAttention, PaperSizes) {
  Case one = small_case();
  Problem& p = one.problem;
  p.l = 32;
  p.d = 16;
  p.l_sel = 64;
  p.n_sel = 4;
  p.w = 100;
  p.groups = 1;
  p.heads = 2;
  one.lengths = {461};
  expect_true(one, false);
}

TEST(EmulatedAttention, OtherForcedBlocks) {
  Case one = small_case();
  one.problem.init_blocks = 0;
  one.problem.local_blocks = 1;
  one.problem.n_sel = 3;
  expect_true(one, false);
  one.problem.init_blocks = 2;
  one.problem.local_blocks = 3;
  one.problem.n_sel = 5;  // nothing is left to choose
  expect_true(one, false);
}

// Blocks whose scores are made by way of shared memory, not between lanes.
TEST(EmulatedAttention, BlocksOfOtherCompressedTokens) {
  Case one = small_case();
  one.problem.d = 16;
  expect_true(one, false);
  one.problem.l = 32;
  one.problem.d = 8;
  expect_true(one, false);
}

TEST(Refusal, NamesWhatIsMissing) {
  Problem p = small_case().problem;
  p.length = 10;
  EXPECT_EQ(nsa::kernels::refusal(p, 90), "");
  EXPECT_NE(nsa::kernels::refusal(p, 75), "");
  const auto refused = [&](auto change) {
    Problem other = p;
    change(other);
    return nsa::kernels::refusal(other, 90);
  };
  EXPECT_NE(refused([](Problem& x) { x.heads = 17; }).find("heads"), std::string::npos);
  EXPECT_NE(refused([](Problem& x) { x.d_k = 504; }).find("d_k 504"), std::string::npos);
  EXPECT_NE(refused([](Problem& x) { x.d_v = 20; }).find("multiples of 8"), std::string::npos);
  EXPECT_NE(refused([](Problem& x) { x.l_sel = 128; }).find("l_sel"), std::string::npos);
  EXPECT_NE(refused([](Problem& x) { x.n_sel = 33; }).find("n_sel"), std::string::npos);
  EXPECT_NE(refused([](Problem& x) { x.length = std::int64_t{1} << 31; }), "");
}

TEST(Refusal, CrookedStridesAreNamed) {
  Case one = small_case();
  one.lengths = {5};
  settle(one);
  nsa::kernels::Inputs in;
  in.q.position = 12;
  try {
    nsa::kernels::forward(one.problem, in, {}, {}, nullptr, nullptr);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("16 bytes"), std::string::npos);
  }
}

TEST(Refusal, QueriesTooFarApartAreNamed) {
  Case one = small_case();
  one.lengths = {1 << 10};
  settle(one);
  nsa::kernels::Inputs in;
  in.q.position = std::int64_t{1} << 25;
  try {
    nsa::kernels::forward(one.problem, in, {}, {}, nullptr, nullptr);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("64 GiB"), std::string::npos);
  }
}

}  // namespace
}  // namespace judge
