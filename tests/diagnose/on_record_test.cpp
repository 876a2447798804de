// What a diagnosis reads from the record of the failure, where nothing is removed: what one rank did, and a known mistake.
#include "harness/diagnose/on_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/patterns.h"
#include "tests/diagnose/worlds.h"

namespace fixtures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Certainty = Diagnosis::Certainty;

Diagnosis of_record(const std::string& code, const std::vector<int>& ranks, int others = 0) {
  Cause cause = cause_at(code);
  cause.site.ranks = ranks;
  std::vector<Cause> causes = {cause};
  for (int i = 0; i < others; ++i) causes.push_back(cause_at("GRAD.SCALE"));
  Ran ran = failed(cause);
  ran.causes = causes;
  return harness::diagnose(rich_case(), causes, std::vector{ran});
}

TEST(Record, WhatOneRankDidByItselfNeedsNoExperiment) {
  for (const char* code : {"CRASH.SIGNAL",
                           "HANG.HOST",
                           "HANG.INIT",
                           "HANG.KERNEL",
                           "INFRA.STALE_BUILD",
                           "SLOW.COMPILE",
                           "SLOW.DATA"}) {
    const Diagnosis diagnosis = of_record(code, {1});
    EXPECT_EQ(diagnosis.certainty, Certainty::recorded) << code;
    EXPECT_FALSE(diagnosis.next) << code;
    EXPECT_THAT(diagnosis.because,
                ElementsAre("It is rank 1, as its own record shows: something is wrong"));
  }
}

// Whoever moved last is no cause of what was slow.
TEST(Record, WhatSeveralDidOrPeersAreNeededToSeeIsAsked) {
  EXPECT_TRUE(of_record("HANG.INIT", {0, 1}).next);
  EXPECT_TRUE(of_record("HANG.HOST", {}).next);
  EXPECT_TRUE(of_record("HANG.HOST", {1}, 1).next);
  EXPECT_TRUE(of_record("HANG.COLLECTIVE", {1}).next);
  EXPECT_TRUE(of_record("SLOW.HOST", {1}).next);
  EXPECT_TRUE(of_record("STATE.DIVERGED", {1}).next);
}

// Of what is slow another back end is asked first: three times its time would be all the time there is.
// A law of the oracle is what the record itself shows of a defect that everybody shares.
TEST(Record, AKnownMistakeThatIsNamedWhereverTheCaseFailsIsReproducedAndNotRemoved) {
  const auto named = [](const char* law) {
    Cause cause = cause_at("NUMERIC.FORWARD", {0});
    cause.site.detail["law"] = law;
    return cause;
  };
  const auto explained = [&](const std::function<Cause(const Scenario&)>& cause_in) {
    return diagnosed(rich_case(), cause_in(rich_case().scenario), [&](const Scenario& scenario) {
      return failed(cause_in(scenario));
    });
  };
  const Diagnosis same = explained([&](const Scenario&) { return named("mask_late"); });
  EXPECT_EQ(same.certainty, Certainty::reproduced);
  EXPECT_THAT(same.because, ElementsAre(HasSubstr("the law mask_late gives every wrong number")));
  EXPECT_THAT(established(same), IsEmpty());
  const auto seed = rich_case().scenario.seed;
  const Diagnosis other = explained([&](const Scenario& scenario) {
    return named(scenario.seed == seed ? "mask_late" : "mask_early");
  });
  EXPECT_EQ(other.certainty, Certainty::supported);
  // A law that says of itself that it is fitted, whatever its name.
  const Diagnosis fitted = explained([&](const Scenario&) {
    Cause cause = named("");
    harness::put_law("mask_late", /*fitted=*/true, cause.site);
    return cause;
  });
  EXPECT_EQ(fitted.certainty, Certainty::supported);
}

TEST(Record, TheOneRankOfACrashIsReadFromItsRecord) {
  Cause killed = cause_at("CRASH.SIGNAL");
  killed.site.ranks = {1};
  killed.statement = "rank 1 was ended by signal 9";
  const Diagnosis diagnosis =
      diagnosed(rich_case(), killed, [&](const Scenario&) { return failed(killed); });
  EXPECT_EQ(diagnosis.certainty, Certainty::recorded);
  EXPECT_THAT(diagnosis.because, ElementsAre(HasSubstr("rank 1")));
  EXPECT_THAT(diagnosis.questions, IsEmpty());
}

}  // namespace
}  // namespace fixtures
