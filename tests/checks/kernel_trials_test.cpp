// What is said of a foreign kernel's trials: what they tried and what not, whether an earlier call made one wrong, and that of a
// long trial the drawn rows are judged and no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/checks/kernel/first_wrong_trial.h"
#include "tests/checks/planted_kernels.h"

namespace {

using fixtures::Healthy;
using fixtures::KernelTensors;
using fixtures::PlantedKernel;
using harness::CheckResult;
using harness::Verdict;
using testing::HasSubstr;
using testing::Not;

constexpr int kIntegersTrial = 7;

class KernelTrials : public testing::Test {
 protected:
  CheckResult judged(const PlantedKernel& planted) {
    fixtures::make_kernel(healthy_, planted);
    return judge();
  }
  CheckResult judge() { return fixtures::run("kernel_is_oracle", healthy_.evidence); }
  Healthy healthy_{1, 1, "kernel"};
};

const auto kWrongWithIntegers = [](const std::string& trial, int, KernelTensors& t) {
  if (trial == "integers") t.at("o", 0, 0, 1, 0) += 1.0;
};
// Wrong in this row, wherever there are so many.
std::function<void(const std::string&, int, KernelTensors&)> wrong_in(const char* tensor,
                                                                      std::int64_t row) {
  return [=](const std::string&, int, KernelTensors& t) {
    if (t.size("o", 2) > 17) t.at(tensor, 0, 1, row, 0) += 1.0;
  };
}

TEST_F(KernelTrials, SaysWhatWasTriedAndWhatWasNot) {
  const CheckResult result = judged({});
  ASSERT_EQ(result.verdict, Verdict::pass) << result.reason;
  EXPECT_THAT(result.reason, HasSubstr("trials in fp64, lengths 1 to "));
  EXPECT_THAT(result.reason, HasSubstr("d_k and d_v 4 and 3, batches up to 2"));
  EXPECT_THAT(result.reason, HasSubstr("not tried: lengths above "));
  EXPECT_THAT(result.reason, HasSubstr("other widths, batches above 2"));
  EXPECT_THAT(result.reason, Not(HasSubstr("drawn row")));
}

TEST_F(KernelTrials, SaysWhereAListHadFewCandidates) {
  EXPECT_THAT(judged({.level = "select"}).reason, HasSubstr("blocks for a list of 3"));
}

TEST_F(KernelTrials, TellsThatATrialIsRightAloneAndWrongAfterOtherCalls) {
  const CheckResult result = judged({.spoil = kWrongWithIntegers, .fresh = kIntegersTrial});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].code, "NUMERIC.FORWARD");
  EXPECT_THAT(result.findings[0].statement, HasSubstr("integers is right alone"));
  EXPECT_THAT(result.findings[0].ruled_out, Not(HasSubstr("fresh process")));
}

// The second call of the first trial is wrong as well: it is one mistake.
TEST_F(KernelTrials, TellsSecondCallsOnlyWhereAllFirstCallsAreRight) {
  const auto kept = [](const std::string& trial, int call, KernelTensors& t) {
    if (trial == "integers" || call == 2) t.at("o", 0, 0, 1, 0) += 1.0;
  };
  const CheckResult result = judged({.spoil = kept, .fresh = kIntegersTrial});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].statement, HasSubstr("integers is right alone"));
}

TEST_F(KernelTrials, TellsALeakInSeveralTensorsAndTrialsOnce) {
  PlantedKernel planted{.spoil = [](const std::string& trial, int, KernelTensors& t) {
    if (!trial.ends_with("other_future")) return;
    t.values.at("dk").back() = t.values.at("dv").back() = 1.0;
  }};
  fixtures::make_kernel(healthy_, planted);
  const CheckResult result = fixtures::run("kernel_causal", healthy_.evidence);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].statement, HasSubstr("dk, dv are not zero there: row 17 of"));
}

TEST_F(KernelTrials, TellsThatATrialIsWrongAloneToo) {
  PlantedKernel planted{.spoil = kWrongWithIntegers, .fresh = kIntegersTrial};
  planted.spoils_fresh = true;
  const CheckResult result = judged(planted);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].statement, Not(HasSubstr("alone")));
  EXPECT_THAT(result.findings[0].ruled_out, HasSubstr("integers is also wrong"));
}

TEST_F(KernelTrials, AsksForTheFirstWrongTrialInAFreshProcess) {
  healthy_.evidence.the_case.scenario.checks = {"kernel_is_oracle"};
  (void)judged({.spoil = kWrongWithIntegers});
  EXPECT_EQ(harness::checks::first_wrong_trial(healthy_.evidence), kIntegersTrial);
  (void)judged({});
  EXPECT_EQ(harness::checks::first_wrong_trial(healthy_.evidence), std::nullopt);
}

class DrawnRows : public KernelTrials, public testing::WithParamInterface<std::string> {};

TEST_P(DrawnRows, AreJudgedAndNoOthers) {
  const PlantedKernel healthy{.level = GetParam(), .rows = {0, 3, 11, 17}};
  const CheckResult right = judged(healthy);
  EXPECT_EQ(right.verdict, Verdict::pass) << right.reason;
  EXPECT_THAT(right.reason, HasSubstr("at least 4 drawn rows"));
  PlantedKernel wrong = healthy;
  for (const char* tensor : {"o", "dq"}) {
    wrong.spoil = wrong_in(tensor, 11);
    EXPECT_EQ(judged(wrong).verdict, Verdict::fail) << tensor;
    wrong.spoil = wrong_in(tensor, 12);
    EXPECT_EQ(judged(wrong).verdict, Verdict::pass) << tensor;
  }
  wrong.spoil = [](const std::string&, int, KernelTensors& t) {
    if (t.size("o", 2) > 17) t.at("dk", 0, 1, 2, 0) += 1.0;
  };
  EXPECT_EQ(judged(wrong).verdict, Verdict::fail) << "keys get gradients from judged rows alone";
}

INSTANTIATE_TEST_SUITE_P(Levels,
                         DrawnRows,
                         testing::Values("attend_sel", "attend_win", "attend_cmp", "attention"));

TEST_F(KernelTrials, WithAGradientInRowsThatAreNotJudgedAreNotJudged) {
  const CheckResult result = judged({.rows = {0, 3, 11, 17}, .gradient_elsewhere = true});
  EXPECT_EQ(result.verdict, Verdict::inconclusive);
  EXPECT_THAT(result.reason, HasSubstr("rows that are not judged"));
}

}  // namespace
