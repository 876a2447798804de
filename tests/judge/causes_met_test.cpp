// Which finding is a cause and which follows: findings that came together in runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/find_cause.h"
#include "tests/judge/findings.h"

namespace {

using harness::Finding;
using harness::Role;
using judge_tests::finding;
using judge_tests::initiating;
using judge_tests::judged;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(Met, TwoCrossedAllReducesEndInTheAbortOfARank) {
  const auto findings = judged(
      {finding(
           "CRASH.SIGNAL/signal",
           R"({"ranks":[0],"step":2,"phase":"backward","sequence":11,"detail":{"signal":"SIGABRT"}})"),
       finding("CRASH.EXCEPTION/communication",
               R"({"ranks":[1],"step":2,"phase":"backward","sequence":11})"),
       finding("DESYNC.SIZE/collective", R"({"step":2,"phase":"backward","sequence":11})")});
  EXPECT_EQ(findings[0].code, "DESYNC.SIZE");
  EXPECT_EQ(findings[0].role, Role::initiating);
  EXPECT_EQ(findings[1].role, Role::cascade);
  EXPECT_EQ(findings[2].role, Role::cascade);
  // A signal in another step has nothing to do with it.
  EXPECT_THAT(
      initiating(
          {finding("CRASH.SIGNAL/signal", R"({"ranks":[0],"step":1,"phase":"forward"})"),
           finding("DESYNC.SIZE/collective", R"({"step":2,"phase":"backward","sequence":11})")}),
      ElementsAre("CRASH.SIGNAL", "DESYNC.SIZE"));
}

TEST(Met, TwoCrossedAllReducesOfOneSize) {
  const auto findings =
      judged({finding("GRAD.NOT_REDUCED/gradients", R"({"step":2,"ranks":[1]})"),
              finding("DESYNC.ORDER/crossed", R"({"step":2,"ranks":[1],"op":"grad_sync"})"),
              finding("NUMERIC.GRADIENT/sum", R"({"step":2,"param":"W_K_sel"})")});
  EXPECT_EQ(findings[0].code, "DESYNC.ORDER");
  EXPECT_THAT(initiating(findings), ElementsAre("DESYNC.ORDER"));
}

TEST(Met, GradientsThatARecomputationExchanges) {
  EXPECT_THAT(
      initiating({finding("NUMERIC.GRADIENT/layer",
                          R"({"layers":[1],"op":"attend_sel","ranks":[0,1],"step":1})"),
                  finding("NUMERIC.GRADIENT/twin", R"({"layers":[1],"ranks":[0,1],"step":1})"),
                  finding("CKPT.GRADIENT/exchanged",
                          R"({"layers":[1],"op":"checkpoint","ranks":[0,1],"step":1})")}),
      ElementsAre("CKPT.GRADIENT"));
}

TEST(Met, AWrongLossAndTheCurveThatShowsIt) {
  EXPECT_THAT(initiating({finding("LOSS.WRONG/loss", R"({"step":1,"ranks":[0,1],"op":"loss"})"),
                          finding("LOSS.BELOW_FLOOR/below"),
                          finding("NUMERIC.GRADIENT/twin", R"({"ranks":[0,1],"step":1})"),
                          finding("LOSS.NOT_FALLING/flat")}),
              ElementsAre("LOSS.WRONG"));
}

TEST(Met, AGradientOfAnotherRankIsNoConsequenceOfALossBelowItsFloor) {
  EXPECT_THAT(initiating({finding("LOSS.BELOW_FLOOR/below", R"({"ranks":[0]})"),
                          finding("NUMERIC.GRADIENT/twin", R"({"ranks":[1],"step":1})")}),
              UnorderedElementsAre("LOSS.BELOW_FLOOR", "NUMERIC.GRADIENT"));
}

TEST(Met, AWrongScheduleFollowsFromNoNan) {
  EXPECT_THAT(
      initiating({finding("NAN.ORIGIN/operator", R"({"layers":[1],"ranks":[0,1],"step":1})"),
                  finding("SCHEDULE.LR/rate", R"({"ranks":[0,1],"step":2})"),
                  finding("OPT.UPDATE_WRONG/optimizer", R"({"ranks":[0,1],"step":1})")}),
      UnorderedElementsAre("NAN.ORIGIN", "SCHEDULE.LR"));
}

TEST(Met, AWrongLossFollowsFromNoWrongData) {
  EXPECT_THAT(initiating({finding("DATA.DUPLICATE/ranks", R"({"ranks":[0,1],"step":1})"),
                          finding("LOSS.WRONG/loss", R"({"ranks":[0,1],"step":1})"),
                          finding("LOSS.NOT_FALLING/flat")}),
              UnorderedElementsAre("DATA.DUPLICATE", "LOSS.WRONG"));
}

TEST(Met, WhatAllRanksUpdateWronglyMakesNoneOfThemDiffer) {
  const char* const differs = R"({"ranks":[2],"step":2})";
  EXPECT_THAT(initiating({finding("OPT.UPDATE_WRONG/optimizer", R"({"ranks":[0,1,2,3],"step":1})"),
                          finding("STATE.DIVERGED/parameters", differs)}),
              UnorderedElementsAre("OPT.UPDATE_WRONG", "STATE.DIVERGED"));
  EXPECT_THAT(initiating({finding("OPT.UPDATE_WRONG/optimizer", R"({"ranks":[2],"step":1})"),
                          finding("STATE.DIVERGED/parameters", differs)}),
              ElementsAre("OPT.UPDATE_WRONG"));
}

TEST(Met, AKilledRankAndThePeerThatLosesIt) {
  const auto findings =
      judged({finding("CRASH.EXCEPTION/communication", R"({"ranks":[0],"step":3})"),
              finding("CRASH.SIGNAL/signal", R"({"ranks":[1],"step":2})")});
  EXPECT_EQ(findings[0].code, "CRASH.SIGNAL");
  EXPECT_EQ(findings[1].role, Role::cascade);
}

TEST(Met, ABranchThatOneRankLeavesOut) {
  EXPECT_THAT(
      initiating(
          {finding("GRAD.NOT_FINALIZED/unreachable_here",
                   R"({"layers":[5],"branch":"sel","ranks":[1],"step":1})"),
           finding("DESYNC.SIZE/collective", R"({"step":1,"phase":"backward","sequence":3})"),
           finding("GRAD.NOT_REDUCED/gradients", R"({"step":1})"),
           finding("CRASH.EXCEPTION/reducer", R"({"ranks":[1],"step":1,"phase":"backward"})"),
           finding("CRASH.EXCEPTION/communication", R"({"ranks":[0],"step":1,"phase":"backward"})"),
           finding("ROUTE.MISMATCH/no_backward",
                   R"({"layers":[5],"op":"attend_sel","ranks":[1],"phase":"backward"})"),
           finding("NUMERIC.GRADIENT/twin", R"({"layers":[5],"ranks":[1],"step":1})")}),
      ElementsAre("GRAD.NOT_FINALIZED"));
}

TEST(Met, AStoppedRank) {
  EXPECT_THAT(initiating({finding("HANG.HOST/stopped", R"({"ranks":[1],"step":2})"),
                          finding("DESYNC.MISSING_RANK/absent", R"({"ranks":[1],"step":2})"),
                          finding("CRASH.EXCEPTION/communication", R"({"ranks":[0],"step":2})")}),
              ElementsAre("HANG.HOST"));
}

TEST(Met, AWrongForwardAndAForeignBatchAreTwoCauses) {
  const auto findings =
      judged({finding("NUMERIC.FORWARD/law",
                      R"({"layers":[2],"branch":"sel","op":"attend_sel","ranks":[0,1],"step":1})"),
              finding("DATA.DUPLICATE/ranks", R"({"ranks":[0,1],"step":1,"op":"data"})"),
              finding("NUMERIC.GRADIENT/twin", R"({"layers":[3],"ranks":[0],"step":1})")});
  EXPECT_EQ(findings[0].code, "DATA.DUPLICATE");
  EXPECT_EQ(findings[1].code, "NUMERIC.GRADIENT") << "either explains it: told under the first";
  EXPECT_EQ(findings[2].code, "NUMERIC.FORWARD");
  EXPECT_EQ(findings[2].role, Role::initiating);
}

TEST(Met, AWrongOptimiserAndAWrongMaskAreTwoCauses) {
  EXPECT_THAT(initiating({finding("SCHEDULE.LR/rate", R"({"ranks":[0,1],"step":2})"),
                          finding("MASK.ABSENT/law",
                                  R"({"layers":[3],"branch":"win","op":"attend_win","step":1})"),
                          finding("NUMERIC.GRADIENT/twin", R"({"layers":[3],"step":1})")}),
              ElementsAre("MASK.ABSENT", "SCHEDULE.LR"));
}

TEST(Met, WrongOperationsOfTwoLayersAreTwoCauses) {
  EXPECT_THAT(
      initiating({finding("NUMERIC.FORWARD/law", R"({"layers":[1],"op":"attend_sel","step":1})"),
                  finding("NUMERIC.FORWARD/law", R"({"layers":[3],"op":"gate","step":1})")}),
      ElementsAre("NUMERIC.FORWARD", "NUMERIC.FORWARD"));
  // In one layer too, where they are different operations.
  EXPECT_THAT(
      initiating({finding("NUMERIC.FORWARD/plain",
                          R"({"layers":[1],"branch":"win","op":"attend_win","step":1})"),
                  finding("SELECTION.WRONG/score", R"({"layers":[1],"op":"score","step":1})")}),
      UnorderedElementsAre("NUMERIC.FORWARD", "SELECTION.WRONG"));
}

TEST(Met, OneMistakeSeenByTwoChecks) {
  const char* win = R"({"layers":[1],"branch":"win","op":"attend_win","ranks":[0],"step":1})";
  EXPECT_THAT(initiating({finding("CAUSALITY.LEAK/forward", win), finding("MASK.ABSENT/law", win)}),
              ElementsAre("MASK.ABSENT"));
  EXPECT_THAT(
      initiating({finding("NUMERIC.FORWARD/plain", win), finding("CAUSALITY.LEAK/forward", win)}),
      ElementsAre("CAUSALITY.LEAK"));
  EXPECT_THAT(
      initiating({finding("NUMERIC.FORWARD/law", win), finding("CAUSALITY.LEAK/forward", win)}),
      ElementsAre("NUMERIC.FORWARD"));
  const char* score = R"({"layers":[1],"op":"score","ranks":[0],"step":1})";
  EXPECT_THAT(initiating({finding("SELECTION.WRONG/score", score),
                          finding("CAUSALITY.LEAK/forward", score)}),
              ElementsAre("CAUSALITY.LEAK"));
}

TEST(Met, AResumptionExplainsWhatDiffersFromItsStepOn) {
  EXPECT_THAT(initiating({finding("NUMERIC.GRADIENT/twin", R"({"step":3})"),
                          finding("RESUME.DIVERGED/diverged", R"({"step":3})"),
                          finding("DATA.SOURCE/tokens", R"({"step":3})")}),
              ElementsAre("RESUME.DIVERGED"));
  EXPECT_THAT(initiating({finding("OPT.UPDATE_WRONG/between_steps", R"({"ranks":[0],"step":3})"),
                          finding("RESUME.DIVERGED/diverged",
                                  R"({"ranks":[0],"step":3,"detail":{"parts":["scaler"]}})"),
                          finding("SCALER.WRONG/scaler", R"({"ranks":[0],"step":4})")}),
              ElementsAre("RESUME.DIVERGED"));
  EXPECT_THAT(initiating({finding("MASK.ABSENT/law", R"({"step":1,"layers":[1]})"),
                          finding("RESUME.DIVERGED/diverged", R"({"step":3})")}),
              UnorderedElementsAre("RESUME.DIVERGED", "MASK.ABSENT"));
}

TEST(Met, AWrongRateFollowsOnlyFromAScheduleThatWasNotResumed) {
  const Finding rate = finding("SCHEDULE.LR/factor", R"({"step":3})");
  EXPECT_THAT(initiating({finding("RESUME.DIVERGED/diverged",
                                  R"({"step":3,"detail":{"parts":["schedule"]}})"),
                          rate}),
              ElementsAre("RESUME.DIVERGED"));
  EXPECT_THAT(initiating({finding("RESUME.DIVERGED/diverged",
                                  R"({"step":3,"detail":{"parts":["moments"]}})"),
                          rate}),
              UnorderedElementsAre("RESUME.DIVERGED", "SCHEDULE.LR"));
  EXPECT_THAT(initiating({finding("RESUME.DIVERGED/scratch", R"({"step":3})"), rate}),
              ElementsAre("RESUME.DIVERGED"));
}

TEST(Met, OtherSequencesHaveOtherDocuments) {
  const Finding outside = finding("RANGE.INVALID/choice", R"({"ranks":[1],"step":2,"layers":[0]})");
  const Finding loss = finding("LOSS.WRONG/loss", R"({"ranks":[1],"step":2})");
  const Finding by_law =
      finding("NUMERIC.FORWARD/law",
              R"({"ranks":[1],"step":2,"op":"attend_cmp","layers":[0],"detail":{"law":"factor"}})");
  EXPECT_THAT(initiating({finding("DATA.WRONG/data",
                                  R"({"ranks":[1],"step":2,"detail":{"parts":["documents"]}})"),
                          outside,
                          by_law,
                          loss}),
              ElementsAre("DATA.WRONG"));
  EXPECT_EQ(
      initiating({finding("DATA.WRONG/data", R"({"ranks":[1],"step":2})"), outside, loss}).size(),
      3U);
}

TEST(Met, AStepThatIsDoneTwiceExplainsWhatItsOwnFilesSayOfIt) {
  EXPECT_THAT(initiating({finding("RESUME.DIVERGED/other_step", R"({"ranks":[0],"step":3})"),
                          finding("SCALER.WRONG/reported", R"({"ranks":[0],"step":3})"),
                          finding("OPT.UPDATE_WRONG/between_steps", R"({"ranks":[0],"step":3})"),
                          finding("OPT.UPDATE_WRONG/optimizer", R"({"ranks":[0],"step":3})"),
                          finding("SCHEDULE.LR/factor", R"({"ranks":[0],"step":4})")}),
              ElementsAre("RESUME.DIVERGED"));
}

TEST(Met, AWrongRateMovesTheWeightsOfAResumedRunAlone) {
  const Finding rate = finding("SCHEDULE.LR/never_falls", R"({"ranks":[0],"step":5})");
  const Finding applied = finding("SCHEDULE.LR/applied",
                                  R"({"ranks":[0],"step":5,"detail":{"law":"lr_does_not_fall"}})");
  const auto resumed = [](const char* parts, int step) {
    const std::string site =
        R"({"ranks":[0],"step":)" + std::to_string(step) + R"(,"detail":{"parts":)" + parts + "}}";
    return finding("RESUME.DIVERGED/diverged", site.c_str());
  };
  EXPECT_THAT(initiating({resumed(R"(["masters","parameters"])", 5), rate, applied}),
              ElementsAre("SCHEDULE.LR"));
  EXPECT_EQ(initiating({resumed(R"(["masters","parameters"])", 4), rate}).size(), 2U);
  EXPECT_THAT(initiating({resumed(R"(["parameters","schedule"])", 5), rate}),
              ElementsAre("RESUME.DIVERGED"));
}

TEST(Met, AStepThatIsLeftOutPastTheScaler) {
  const Finding skipped = finding("OPT.SKIPPED/uncounted", R"({"ranks":[0],"step":1})");
  const Finding told = finding("SCALER.WRONG/reported", R"({"ranks":[0],"step":1})");
  const Finding scale = finding("SCALER.WRONG/scale", R"({"ranks":[0],"step":2})");
  EXPECT_THAT(initiating({skipped, told, scale}), ElementsAre("OPT.SKIPPED"));
  EXPECT_THAT(initiating({finding("OPT.SKIPPED/steps", R"({"ranks":[0],"step":1})"), told}),
              ElementsAre("SCALER.WRONG"));
  EXPECT_THAT(initiating({skipped,
                          finding("OPT.UPDATE_WRONG/optimizer",
                                  R"({"ranks":[0],"step":1,"detail":{"law":"step_skipped"}})")}),
              ElementsAre("OPT.SKIPPED"));
}

TEST(Met, RanksThatChooseOtherBlocksCrossNoCollectives) {
  const Finding chosen =
      finding("DESYNC.SELECTION/blocks", R"({"ranks":[1],"step":1,"layers":[0]})");
  const Finding unreduced = finding("GRAD.NOT_REDUCED/gradients", R"({"ranks":[0,1],"step":1})");
  EXPECT_EQ(initiating({chosen, unreduced}).size(), 2U);
  EXPECT_THAT(initiating({finding("DESYNC.SIZE/extra", R"({"ranks":[1],"step":1})"), unreduced}),
              ElementsAre("DESYNC.SIZE"));
}

TEST(Met, AGradientOfOneRankAloneWhereNothingWasReduced) {
  EXPECT_THAT(initiating({finding("GRAD.NOT_REDUCED/gradients", R"({"ranks":[0,1],"step":1})"),
                          finding("NUMERIC.GRADIENT/mean",
                                  R"({"ranks":[0,1],"step":1,"op":"grad_sync",
                                      "detail":{"law":"rank_alone"}})")}),
              ElementsAre("GRAD.NOT_REDUCED"));
}

TEST(Met, AWrongMeanOverRanksIsToldOnce) {
  const auto mean = [](const char* op) {
    return finding("NUMERIC.GRADIENT/mean",
                   (std::string(R"({"ranks":[0,1],"step":1,"op":")") + op + "\"}").c_str());
  };
  const Finding factor = finding("GRAD.SCALE/sum", R"({"step":1,"detail":{"factor":2}})");
  const Finding sum = finding("NUMERIC.GRADIENT/sum", R"({"step":1,"op":"grad_sync"})");
  EXPECT_THAT(initiating({mean("grad_sync"), factor}), ElementsAre("GRAD.SCALE"));
  EXPECT_EQ(initiating({mean("grad_sync"), sum}).size(), 1U);
  // What accumulation loses before the reduction is no factor of the reduction.
  EXPECT_EQ(initiating({mean("accumulate"), factor}).size(), 2U);
}

TEST(Met, OnePassOverAllSequencesFollowsFromWhatIsWrongInTheStep) {
  const Finding joint = finding("NUMERIC.GRADIENT/joint", R"({"step":2,"layers":[1]})");
  for (const char* cause : {"GRAD.SCALE/sum",
                            "NUMERIC.GRADIENT/twin",
                            "NUMERIC.GRADIENT/layer",
                            "NUMERIC.GRADIENT/mean",
                            "GRAD.NOT_REDUCED/gradients"}) {
    EXPECT_EQ(initiating({finding(cause, R"({"ranks":[1],"step":2})"), joint}).size(), 1U) << cause;
    EXPECT_EQ(initiating({finding(cause, R"({"ranks":[1],"step":1})"), joint}).size(), 2U) << cause;
  }
  EXPECT_THAT(initiating({joint}), ElementsAre("NUMERIC.GRADIENT"));
}

TEST(Met, AnotherImplementationExplainsOnlyTheLayersWhereItRan) {
  const Finding route =
      finding("ROUTE.MISMATCH/other", R"({"layers":[1],"op":"attend_win","branch":"win"})");
  const auto wrong = [](const char* layers) {
    return finding(
        "NUMERIC.FORWARD/law",
        (std::string(R"({"op":"attend_win","branch":"win","layers":)") + layers + "}").c_str());
  };
  EXPECT_EQ(initiating({route, wrong("[1]")}).size(), 1U);
  EXPECT_EQ(initiating({route, wrong("[0,1]")}).size(), 2U);
}

TEST(Met, ARecomputationExplainsTheGradientsBelowIt) {
  const Finding below = finding("NUMERIC.GRADIENT/twin", R"({"layers":[1],"ranks":[0],"step":1})");
  const Finding above = finding("NUMERIC.GRADIENT/twin", R"({"layers":[3],"ranks":[0],"step":1})");
  for (const char* key :
       {"CKPT.SELECTION_FLIP/blocks", "CKPT.GRADIENT/output", "INPLACE.MODIFIED/tensor"}) {
    const Finding again = finding(key, R"({"layers":[2],"ranks":[0],"step":1})");
    EXPECT_THAT(initiating({below, again}), ElementsAre(again.code));
    EXPECT_EQ(initiating({above, again}).size(), 2U) << "the backward makes it before";
  }
  // Of two types, the forward's may be the odd one: then every gradient differs.
  const Finding other_type = finding("CKPT.DTYPE/dtype", R"({"layers":[2],"ranks":[0],"step":1})");
  EXPECT_THAT(initiating({above, other_type}), ElementsAre("CKPT.DTYPE"));
}

TEST(Met, WeightsThatLoseUpdatesAndTheTwinThatDoesNot) {
  EXPECT_THAT(initiating({finding("OPT.UPDATE_LOST/updates", R"({"ranks":[0,1],"step":1})"),
                          finding("NUMERIC.GRADIENT/twin", R"({"ranks":[0,1],"step":2})"),
                          finding("LOSS.NOT_FALLING/flat")}),
              ElementsAre("OPT.UPDATE_LOST"));
  EXPECT_THAT(initiating({finding("OPT.SKIPPED/uncounted", R"({"ranks":[0],"step":3})"),
                          finding("SCHEDULE.LR/skipped_steps", R"({"ranks":[0],"step":4})")}),
              ElementsAre("OPT.SKIPPED"));
}

// One mistake told twice by checks that look at it from two sides is one cause; another mistake of the same stage is not.
TEST(Met, WhatWasReadBackWrongIsNoMistakeOfTheStepsAround) {
  const auto resumed = [](const std::string& part) {
    const std::string site =
        R"({"ranks":[0],"step":4,"detail":{"resumed_after_step":[3],"parts":[")" + part + R"("]}})";
    return finding("RESUME.DIVERGED/diverged", site.c_str());
  };
  const auto told = [](int step) {
    const std::string site = R"({"ranks":[0],"op":"told_row","step":)" + std::to_string(step) + "}";
    return finding("SCALER.WRONG/reported", site.c_str());
  };
  EXPECT_THAT(initiating({told(3), resumed("scaler")}), ElementsAre("RESUME.DIVERGED"));
  EXPECT_EQ(initiating({told(2), resumed("scaler")}).size(), 2U);
  EXPECT_EQ(initiating({told(3), resumed("moments")}).size(), 2U);
  // The scale is judged by what the recorded steps did: other moments make no rule of it wrong.
  const Finding scale = finding("SCALER.WRONG/scale", R"({"ranks":[0],"op":"scale","step":5})");
  EXPECT_EQ(initiating({scale, resumed("scaler")}).size(), 1U);
  EXPECT_EQ(initiating({scale, resumed("moments")}).size(), 2U);
  // Nor of another later step: who counts no step also tells a wrong count after the ones that follow.
  const Finding going_on =
      finding("SCALER.WRONG/reported",
              R"({"ranks":[0],"op":"told_row","step":3,"detail":{"steps":[3,4,5]}})");
  EXPECT_EQ(initiating({going_on, resumed("scaler")}).size(), 2U);
}

// The step is made with the norm that is told: what it makes wrong has no law of its own. A step that is made with a wrong rate
// says so itself: another wrong update beside a rate that is told wrong is wrong by itself.
TEST(Met, AWrongNormOrRateIsToldOnce) {
  const Finding norm = finding("CLIP.WRONG/norm", R"({"ranks":[0],"step":3,"op":"norm"})");
  const Finding rate = finding("SCHEDULE.LR/rate", R"({"ranks":[0],"step":3,"op":"optimizer"})");
  const Finding applied = finding("SCHEDULE.LR/applied", R"({"ranks":[0],"step":3})");
  const Finding update = finding("OPT.UPDATE_WRONG/optimizer", R"({"ranks":[0],"step":3})");
  const Finding known = finding("OPT.UPDATE_WRONG/optimizer",
                                R"({"ranks":[0],"step":3,"detail":{"law":"betas_swapped"}})");
  EXPECT_THAT(initiating({norm, update}), ElementsAre(norm.code));
  const Finding values = finding("OPT.UPDATE_WRONG/optimizer",
                                 R"({"ranks":[0],"step":3,"detail":{"parts":["values_alone"]}})");
  EXPECT_EQ(initiating({norm, values}).size(), 2U) << "a wrong norm moves the moments";
  EXPECT_EQ(initiating({norm, known}).size(), 2U);
  EXPECT_EQ(initiating({rate, applied}).size(), 1U);
  EXPECT_EQ(initiating({rate, update}).size(), 2U);
  EXPECT_EQ(initiating({rate, known}).size(), 2U);
}

// The scale of step 2 is not the half of that of step 1, so nothing explains why step 1 was left out.
TEST(Met, AScaleThatFallsByAnotherRuleIsOneCause) {
  EXPECT_THAT(
      initiating({finding("OPT.SKIPPED/steps", R"({"ranks":[0],"step":1,"op":"optimizer"})"),
                  finding("SCALER.WRONG/scale", R"({"ranks":[0],"step":2,"op":"scale"})")}),
      ElementsAre("SCALER.WRONG"));
}

TEST(Met, AWrongRateMovesWeightsAndNoLossScale) {
  const Finding rate = finding("SCHEDULE.LR/rate", R"({"ranks":[0],"step":3})");
  const auto resumed = [](const std::string& parts) {
    const std::string site = R"({"ranks":[0],"step":4,"detail":{"parts":[)" + parts + "]}}";
    return finding("RESUME.DIVERGED/diverged", site.c_str());
  };
  EXPECT_THAT(initiating({rate, resumed(R"("parameters")")}), ElementsAre("SCHEDULE.LR"));
  EXPECT_EQ(initiating({rate, resumed(R"("scaler","parameters")")}).size(), 2U);
}

TEST(Met, AStageThatIsCutOffHasNoBackward) {
  EXPECT_THAT(
      initiating(
          {finding("ROUTE.MISMATCH/no_backward", R"({"ranks":[0],"layers":[1],"op":"gate"})"),
           finding("NUMERIC.GRADIENT/layer", R"({"ranks":[0],"layers":[1],"step":1})")}),
      ElementsAre("NUMERIC.GRADIENT"));
}

TEST(Met, AKnownMistakeFollowsFromNoWrongInput) {
  EXPECT_THAT(
      initiating({finding("NAN.ORIGIN/operator", R"({"layers":[0],"step":1})"),
                  finding("MASK.POLARITY/law",
                          R"({"layers":[1],"op":"attend_sel","detail":{"law":"inverted"}})"),
                  finding("NUMERIC.GRADIENT/layer",
                          R"({"layers":[1],"detail":{"law":"shares_of_heads"}})")}),
      UnorderedElementsAre("NAN.ORIGIN", "MASK.POLARITY", "NUMERIC.GRADIENT"));
  EXPECT_THAT(initiating({finding("NAN.ORIGIN/operator", R"({"layers":[0],"step":1})"),
                          finding("NUMERIC.FORWARD/plain", R"({"layers":[1],"op":"attend_sel"})")}),
              ElementsAre("NAN.ORIGIN"));
}

TEST(Met, NoGradientPassesTheChoiceOfBlocks) {
  EXPECT_THAT(
      initiating({finding("SELECTION.WRONG/select", R"({"layers":[1],"op":"select"})"),
                  finding("GRAD.ZERO/zero", R"({"layers":[1],"branch":"cmp","param":"W_K_cmp"})")}),
      UnorderedElementsAre("SELECTION.WRONG", "GRAD.ZERO"));
}

// A wrong operation of both passes makes neither differ from the other.
TEST(Met, ADecodedTokenFollowsFromNoWrongSequenceElsewhere) {
  const char* rope = R"({"layers":[0,1],"op":"rope","ranks":[0],"step":1})";
  const char* window = R"({"layers":[0],"op":"attend_win","branch":"win","ranks":[0]})";
  EXPECT_THAT(initiating({finding("NUMERIC.FORWARD/law", rope),
                          finding("DECODE.MISMATCH/position", window)}),
              UnorderedElementsAre("NUMERIC.FORWARD", "DECODE.MISMATCH"));
  EXPECT_THAT(initiating({finding("NUMERIC.FORWARD/plain", window),
                          finding("DECODE.MISMATCH/position", window)}),
              ElementsAre("NUMERIC.FORWARD"));
  EXPECT_THAT(initiating({finding("NAN.ORIGIN/operator", R"({"layers":[0],"op":"rope"})"),
                          finding("DECODE.MISMATCH/position", window)}),
              ElementsAre("NAN.ORIGIN"));
}

TEST(Met, KeysThatWereReadFollowFromWhatIsHeldAndFromNoNumber) {
  const auto two = [&](const char* key, const char* site, const std::string& parts = "") {
    const std::string reads =
        R"({"layers":[0,1],"branch":"sel","ranks":[0],"detail":{"parts":[)" + parts + "]}}";
    return initiating({finding(key, site), finding("READS.MISMATCH/count", reads.c_str())})
               .size() == 2;
  };
  const char* const attend = R"({"layers":[0],"op":"attend_sel","branch":"sel"})";
  EXPECT_TRUE(two("NUMERIC.FORWARD/law", attend));
  EXPECT_TRUE(two("SELECTION.WRONG/score", R"({"layers":[0],"op":"score"})"));
  EXPECT_TRUE(
      two("DECODE.MISMATCH/position", R"({"layers":[0],"op":"attend_win","branch":"win"})"));
  EXPECT_FALSE(two("DECODE.MISMATCH/position", attend));
  EXPECT_FALSE(two("RANGE.INVALID/blocks", R"({"layers":[0],"op":"select"})"));
  EXPECT_FALSE(two("MASK.ABSENT/law", R"({"layers":[1],"op":"attend_sel","branch":"sel"})"));
  // Another position, and other tokens held, change a count in their own ways alone.
  const char* const rope = R"({"layers":[0],"op":"rope"})";
  EXPECT_TRUE(two("DECODE.MISMATCH/position", rope));
  EXPECT_TRUE(two("DECODE.MISMATCH/position", rope, R"("cache")"));
  EXPECT_FALSE(two("DECODE.MISMATCH/position", rope, R"("position")"));
  const char* const cache = R"({"layers":[0],"op":"cache","branch":"sel"})";
  EXPECT_TRUE(two("DECODE.MISMATCH/position", cache));
  EXPECT_FALSE(two("DECODE.MISMATCH/position", cache, R"("cache")"));
  EXPECT_TRUE(two(
      "DECODE.MISMATCH/position", R"({"layers":[0],"op":"cache","branch":"win"})", R"("cache")"));
  EXPECT_FALSE(two("DECODE.MISMATCH/position_too", cache));
  EXPECT_TRUE(two("DECODE.MISMATCH/position", R"({"layers":[0],"op":"input"})", R"("cache")"));
}

TEST(Met, AGradientOfZerosIsNoWrongScaleBesides) {
  const char* norm = R"({"layers":[0],"params":["blocks.0.norm1.weight"],"ranks":[0],"step":2})";
  const char* other = R"({"layers":[1],"params":["blocks.1.norm1.weight"],"ranks":[0],"step":2})";
  EXPECT_THAT(initiating({finding("GRAD.ZERO/zero", norm), finding("GRAD.SCALE/twin", norm)}),
              ElementsAre("GRAD.ZERO"));
  EXPECT_THAT(initiating({finding("GRAD.ZERO/zero", norm), finding("GRAD.SCALE/twin", other)}),
              UnorderedElementsAre("GRAD.ZERO", "GRAD.SCALE"));
}

TEST(Met, WhatWasReducedBeforeItsStreamEndedIsZeros) {
  const char* norm = R"({"layers":[0],"params":["blocks.0.norm1.weight"],"ranks":[0],"step":2})";
  const auto causes = [&](const char* reduced) {
    return initiating({finding("RACE.STREAM/reduced", reduced),
                       finding("GRAD.ZERO/zero", norm),
                       finding("GRAD.SCALE/twin", norm)});
  };
  EXPECT_THAT(causes(R"({"layers":[0],"op":"grad_sync","ranks":[0,1],"step":2})"),
              ElementsAre("RACE.STREAM"));
  EXPECT_THAT(causes(R"({"layers":[1],"op":"grad_sync","ranks":[0,1],"step":2})"),
              UnorderedElementsAre("RACE.STREAM", "GRAD.ZERO"));
}

TEST(Met, WhatAllRanksScaleAlikeMakesNoneOfThemDiffer) {
  EXPECT_THAT(initiating({finding("GRAD.SCALE/sum", R"({"step":1})"),
                          finding("STATE.DIVERGED/no_majority", R"({"step":1})")}),
              UnorderedElementsAre("GRAD.SCALE", "STATE.DIVERGED"));
  EXPECT_THAT(initiating({finding("GRAD.SCALE/sum", R"({"step":1,"ranks":[1]})"),
                          finding("STATE.DIVERGED/no_majority", R"({"step":1})")}),
              ElementsAre("GRAD.SCALE"));
}

}  // namespace
