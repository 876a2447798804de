// One mistake seen at several places is one cause; another mistake beside it is a second one.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/not_judged.h"
#include "tests/judge/findings.h"

namespace {

using harness::Finding;
using harness::NotJudged;
using harness::Site;
using judge_tests::finding;
using judge_tests::initiating;
using judge_tests::judged;
using testing::ElementsAre;

// What is left out in two steps, or decided wrongly in one, makes no later step wrong: each is judged from its own record.
TEST(Shared, AStepThatWasLeftOutMakesNoLaterOneWrong) {
  const Finding skipped =
      finding("OPT.SKIPPED/steps", R"({"ranks":[0],"step":1,"detail":{"steps":[1,2]}})");
  const auto update = [](int step) {
    return finding("OPT.UPDATE_WRONG/optimizer",
                   (R"({"ranks":[0],"step":)" + std::to_string(step) + "}").c_str());
  };
  EXPECT_THAT(initiating({skipped, update(2)}), ElementsAre("OPT.SKIPPED"));
  EXPECT_EQ(initiating({skipped, update(3)}).size(), 2U);
  const Finding scaler = finding("SCALER.WRONG/scaler", R"({"ranks":[0],"step":1,"op":"scaler"})");
  const auto told = [](int step) {
    return finding(
        "SCALER.WRONG/reported",
        (R"({"ranks":[0],"op":"told_row","step":)" + std::to_string(step) + "}").c_str());
  };
  EXPECT_EQ(initiating({scaler, told(1)}).size(), 1U);
  EXPECT_EQ(initiating({scaler, told(2)}).size(), 2U);
}

TEST(Shared, WhatWasReadBackWrongFollowsFromNoRate) {
  const Finding rate = finding("SCHEDULE.LR/rate", R"({"ranks":[0],"step":4})");
  const char* const masters =
      R"({"ranks":[0],"step":4,"detail":{"parts":["masters"],"resumed_after_step":[3]}})";
  EXPECT_EQ(initiating({rate, finding("RESUME.DIVERGED/read_back", masters)}).size(), 2U);
  EXPECT_EQ(initiating({rate, finding("RESUME.DIVERGED/diverged", masters)}).size(), 1U);
}

// One law in several operations is one mistake in what they share. Two factors are two mistakes, and two layers two.
TEST(Shared, OneLawInSeveralOperationsIsOneMistake) {
  const auto wrong = [](const std::string& key, const std::string& op, const std::string& layers) {
    const std::string site = R"({"ranks":[0],"step":1,"layers":)" + layers + R"(,"op":")" + op +
                             R"(","detail":{"law":"rms_factor"}})";
    return finding(key, site.c_str());
  };
  const Finding norm1 = wrong("NUMERIC.FORWARD/between", "norm1", "[1]");
  EXPECT_EQ(initiating({norm1, wrong("NUMERIC.FORWARD/between", "norm2", "[1]")}).size(), 1U);
  EXPECT_EQ(initiating({norm1, wrong("NUMERIC.FORWARD/between", "norm2", "[0]")}).size(), 2U);
  Finding other = wrong("NUMERIC.FORWARD/between", "norm2", "[1]");
  other.facts["known"] = "the norm times 1.3";
  EXPECT_EQ(initiating({norm1, other}).size(), 2U);
  EXPECT_THAT(initiating({wrong("SELECTION.WRONG/score", "score", "[0,1]"),
                          wrong("NUMERIC.FORWARD/law", "attend_cmp", "[0,1]")}),
              ElementsAre("NUMERIC.FORWARD"));
}

TEST(Shared, WhatIsWrongAtAllPlacesOfAnOperationIsOneMistake) {
  const auto wrong = [](const std::string& op, const std::string& more) {
    const std::string site = R"({"ranks":[0],"step":1)" + more + R"(,"op":")" + op + R"("})";
    return finding("NUMERIC.FORWARD/between", site.c_str());
  };
  const std::string layers = R"(,"layers":[0,1])";
  const Finding norm1 = wrong("norm1", layers);
  const Finding norm2 = wrong("norm2", layers);
  EXPECT_EQ(initiating({norm1, norm2}).size(), 2U);
  EXPECT_EQ(initiating({norm1, norm2, wrong("norm_f", "")}).size(), 1U);
  EXPECT_EQ(initiating({norm1, wrong("norm2", R"(,"layers":[1])"), wrong("norm_f", "")}).size(),
            3U);
  const std::string law = R"(,"detail":{"law":"rms_factor"})";
  EXPECT_EQ(initiating({norm1, norm2, wrong("norm_f", law)}).size(), 3U);
  // Keys and values of a branch are projected alike: in the same rows both are wrong.
  const auto rows = [](int count) {
    return R"(,"layers":[1],"branch":"cmp","detail":{"row_count":)" + std::to_string(count) + "}";
  };
  EXPECT_EQ(initiating({wrong("project", rows(9)), wrong("rope", rows(9))}).size(), 1U);
  EXPECT_EQ(initiating({wrong("project", rows(9)), wrong("rope", rows(8))}).size(), 2U);
}

TEST(Shared, ALayerWhoseSeamsAllRanElsewhereIsOneMistake) {
  std::vector<Finding> all;
  for (const char* op : {"attend_cmp",
                         "attend_sel",
                         "attend_win",
                         "attention",
                         "compress",
                         "gate",
                         "project",
                         "rope",
                         "score",
                         "select"}) {
    const std::string site = R"({"ranks":[0],"layers":[1],"op":")" + std::string(op) + R"("})";
    all.push_back(finding("ROUTE.MISMATCH/never", site.c_str()));
  }
  EXPECT_EQ(initiating(all).size(), 1U);
  EXPECT_EQ(initiating({all[0], all[5], all[9]}).size(), 3U);
}

TEST(Shared, AWrongForwardAndTheGradientThatItAdds) {
  const auto forward = [](const std::string& op, const std::string& law) {
    const std::string site = R"({"ranks":[0],"step":1,"layers":[1],"branch":"sel","op":")" + op +
                             R"(","detail":{"law":")" + law + R"("}})";
    return finding("NUMERIC.FORWARD/law", site.c_str());
  };
  const auto gradient = [](const std::string& branch) {
    const std::string site = R"({"ranks":[0],"step":1,"layers":[1],"branch":")" + branch + R"("})";
    return finding("NUMERIC.GRADIENT/layer", site.c_str());
  };
  EXPECT_EQ(initiating({forward("project", "weights_of_win"), gradient("win")}).size(), 1U);
  EXPECT_EQ(initiating({forward("project", "weights_of_win"), gradient("cmp")}).size(), 2U);
  EXPECT_EQ(initiating({forward("attend_sel", "keys_of_win"), gradient("win")}).size(), 1U);
  EXPECT_EQ(initiating({forward("project", "transposed"), gradient("win")}).size(), 2U);
  const Finding norm =
      finding("NUMERIC.GRADIENT/between", R"({"ranks":[0],"step":1,"layers":[1],"op":"norm1"})");
  EXPECT_EQ(initiating({forward("residual", "residual_of_other_stream"), norm}).size(), 1U);
  EXPECT_EQ(initiating({forward("residual", "residual_doubled"), norm}).size(), 2U);
}

TEST(Shared, WhatACheckpointHandsOnIsNoMistakeOfTheResidual) {
  const Finding again =
      finding("CKPT.GRADIENT/output",
              R"({"ranks":[0],"step":1,"layers":[1],"op":"checkpoint","detail":{"layers":[0,1]}})");
  const auto gradient = [](const std::string& variant, const std::string& more) {
    const std::string site = R"({"ranks":[0],"step":1)" + more + "}";
    return finding("NUMERIC.GRADIENT/" + variant, site.c_str());
  };
  const std::string law = R"(,"detail":{"law":"residual_mean"})";
  EXPECT_EQ(
      initiating({again, gradient("between", R"(,"layers":[1],"op":"residual")" + law)}).size(),
      1U);
  EXPECT_EQ(initiating({again, gradient("between", R"(,"layers":[1],"op":"mlp")" + law)}).size(),
            2U);
  EXPECT_EQ(initiating({again, gradient("between", R"(,"layers":[2],"op":"residual")")}).size(),
            2U);
  EXPECT_EQ(initiating({again, gradient("layer", R"(,"layers":[0])")}).size(), 1U);
}

// A step that nobody counted as left out is counted by the schedule; one that the loss scale left out is not.
TEST(Shared, ARateThatCountsTheStepThatWasLeftOut) {
  const auto causes = [](const std::string& skipped, const std::string& rate) {
    const std::string site = R"({"ranks":[0],"step":3,"detail":{"law":")" + rate + "\"}}";
    return initiating({finding("OPT.SKIPPED/" + skipped,
                               R"({"ranks":[0],"step":2,"detail":{"steps":[2]}})"),
                       finding("SCHEDULE.LR/" + rate, site.c_str())})
        .size();
  };
  EXPECT_EQ(causes("uncounted", "skipped_steps"), 1U);
  EXPECT_EQ(causes("uncounted", "never_falls"), 2U);
  EXPECT_EQ(causes("steps", "skipped_steps"), 2U);
}

// An update is judged from the state as it was read back: what the reading changed makes no number of it wrong.
TEST(Shared, AnUpdateThatIsWrongAfterAWrongResumption) {
  const auto causes = [](const std::string& resumed,
                         const std::string& part,
                         const std::string& update) {
    const std::string site =
        R"({"ranks":[0],"step":4,"detail":{"resumed_after_step":[3],"parts":[")" + part + R"("]}})";
    const std::string of_update = R"({"ranks":[0],"step":4,"detail":{)" + update + "}}";
    return initiating({finding("RESUME.DIVERGED/" + resumed, site.c_str()),
                       finding("OPT.UPDATE_WRONG/optimizer", of_update.c_str())})
        .size();
  };
  EXPECT_EQ(causes("read_back", "moments", ""), 2U);
  EXPECT_EQ(causes("read_back", "masters", ""), 2U);
  // The rate and the count of steps are read back too, and are in no file of the step.
  EXPECT_EQ(causes("read_back", "schedule", ""), 1U);
  EXPECT_EQ(causes("read_back", "moments", R"("law":"bias_correction_behind","steps":[4,5])"), 1U);
  EXPECT_EQ(causes("read_back", "moments", R"("law":"betas_swapped")"), 2U);
  // What was read back well, and went wrong in the first step after it: in that one alone.
  EXPECT_EQ(causes("diverged", "parameters", ""), 1U);
  EXPECT_EQ(causes("diverged", "parameters", R"("steps":[4,5,6])"), 2U);
  EXPECT_EQ(causes("diverged", "parameters", R"("law":"bias_correction_ahead","steps":[4,5])"), 1U);
}

// What decoding makes of a wrong layer is not compared: the finding of that layer says so.
TEST(Shared, LaterLayersOfADecodedTokenAreToldAsNotJudged) {
  const auto lacking = [](const std::string& check, const std::string& layers) {
    NotJudged one{check, "decoding: a layer whose input differs", {}};
    one.site = nlohmann::json::parse(R"({"ranks":[0],"layers":)" + layers + "}").get<Site>();
    return one;
  };
  Finding decoded =
      finding("DECODE.MISMATCH/position", R"({"ranks":[0],"layers":[1],"op":"gate"})");
  decoded.check = "decode_equal";
  std::vector<Finding> findings = {decoded};
  const std::vector<NotJudged> all = {lacking("decode_equal", "[2]"),
                                      lacking("decode_equal", "[0]"),
                                      lacking("close_to_oracle", "[2]")};
  tell_not_judged(all, findings);
  ASSERT_EQ(findings[0].not_judged.size(), 1U);
  EXPECT_THAT(findings[0].not_judged[0].site.layers, ElementsAre(2));
}

// Which of a shared operation's places is told first depends on no number of it.
TEST(Shared, TheFirstPlaceOfTheModelIsToldFirst) {
  const auto wrong = [](const std::string& op, const std::string& layers, int numbers) {
    const std::string site = R"({"ranks":[0],"step":1,"op":")" + op + "\"" + layers +
                             R"(,"detail":{"law":"rms_factor","wrong_numbers":)" +
                             std::to_string(numbers) + "}}";
    return finding("NUMERIC.FORWARD/between", site.c_str());
  };
  const std::string layers = R"(,"layers":[0,1])";
  for (const int numbers : {1, 5, 9}) {
    const auto told = judged(
        {wrong("norm2", layers, 4), wrong("norm_f", "", 3), wrong("norm1", layers, numbers)});
    EXPECT_EQ(told.front().site.op, "norm1");
    EXPECT_EQ(told[1].site.op, "norm2");
  }
}

// A version counter that grew while every number stayed makes no result wrong.
TEST(Shared, WhatWasTouchedAndNotChangedMakesNothingWrong) {
  const char* const here = R"({"layers":[1],"op":"project","ranks":[0],"step":1})";
  const Finding wrong = finding("NUMERIC.FORWARD/plain", here);
  EXPECT_EQ(initiating({finding("ALIAS.MUTATED/written", here), wrong}).size(), 1U);
  EXPECT_EQ(initiating({finding("ALIAS.MUTATED/touched", here), wrong}).size(), 2U);
  EXPECT_EQ(initiating({finding("ALIAS.MUTATED/touched", here),
                        finding("ALIAS.MUTATED/touched",
                                R"({"layers":[1],"op":"attention","ranks":[0],"step":1})")})
                .size(),
            1U);
}

}  // namespace
