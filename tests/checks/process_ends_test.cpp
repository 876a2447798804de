// What a finding says of its witness, where an exception ended a rank.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/evidence/hosts.h"
#include "harness/judge/find_cause.h"
#include "harness/judge/wording/find_wording.h"
#include "tests/checks/planted.h"
#include "tests/checks/planted_fixtures.h"

namespace {

using testing::HasSubstr;
using testing::Not;

harness::Finding told(const harness::WorkerError& error) {
  fixtures::Healthy healthy(2, 2, "training");
  fixtures::raises(1, error)(healthy);
  const auto result = fixtures::run("process_clean", healthy.evidence);
  EXPECT_EQ(result.findings.size(), 1U);
  return harness::worded(result.findings.at(0));
}

TEST(ProcessEnds, AKindThatOnlyTheWordsTellIsSaidToBeSo) {
  const auto by_words = told(fixtures::error_of("c10::Error", "CUDA error: CUBLAS_STATUS_X"));
  EXPECT_EQ(by_words.code, "CRASH.DEVICE");
  EXPECT_THAT(by_words.statement, HasSubstr("Only the words \"CUDA error\" of the message"));
  const auto by_type = told(fixtures::error_of("c10::AcceleratorError", "CUDA error: 700"));
  EXPECT_EQ(by_type.code, "CRASH.DEVICE");
  EXPECT_THAT(by_type.statement, Not(HasSubstr("Only the words")));
  EXPECT_EQ(by_type.facts.at("told_by"), "type");
}

TEST(ProcessEnds, TheFunctionThatRaisedItIsTold) {
  auto error = fixtures::error_of("c10::Error", "boom");
  error.frames = {"at::sum(at::Tensor const&)+0x1 (libtorch_cpu.so)"};
  const auto finding = told(error);
  EXPECT_EQ(finding.facts.at("raised_by"), "at::sum(at::Tensor const&) (libtorch_cpu.so)");
  EXPECT_FALSE(harness::details_of(finding).empty());
}

TEST(ProcessEnds, WhatIsWrongWithACardStandsBesideTheEndThatItMayBeTheReasonOf) {
  fixtures::Healthy h(2, 2, "training");
  h.ends(1, -1, SIGSEGV, false, 950);
  for (const char* said : {"card 3 (H100): Xid 79 (off: the bus); slow", "nvidia-smi: it failed"}) {
    h.evidence.add(
        harness::Event::of(harness::kController, 900, harness::Fact{harness::kCardFact, said}));
  }
  const auto finding = harness::worded(fixtures::run("process_clean", h.evidence).findings.at(0));
  using Details = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(
      harness::details_of(finding),
      (Details{{"cards", "card 3 (H100): Xid 79 (off: the bus); slow; nvidia-smi: it failed"}}));
}

// Two ranks of a command: the connection of rank 0 fails and it ends at 950 ms, rank 1 ends with 0.
std::vector<harness::Finding> told_of_command(std::int64_t rank_1_ends_ms, int rank_1_exits_with) {
  fixtures::Healthy h(2, 2, "training");
  fixtures::as_command(h);
  fixtures::raises(0, fixtures::error_of("RuntimeError", "Connection closed by peer"))(h);
  h.ends(0, 1, 0, false, 950);
  h.ends(1, rank_1_exits_with, 0, false, rank_1_ends_ms);
  return fixtures::run("process_clean", h.evidence).findings;
}

std::vector<int> leavers_of(const std::vector<harness::Finding>& findings) {
  for (const harness::Finding& finding : findings) {
    if (finding.variant == "left") return finding.site.ranks;
  }
  return {};
}

TEST(ProcessEnds, ARankThatLeftItsPeerWithZeroIsTheCause) {
  auto findings = told_of_command(900, 0);
  EXPECT_THAT(leavers_of(findings), testing::ElementsAre(1));
  harness::assign_roles(findings);
  for (const harness::Finding& finding : findings) {
    EXPECT_EQ(finding.role == harness::Role::initiating, finding.variant == "left")
        << finding.variant;
  }
}

TEST(ProcessEnds, ARankThatEndedLaterOrFailedItselfLeftNobody) {
  EXPECT_THAT(leavers_of(told_of_command(990, 0)), testing::IsEmpty());
  EXPECT_THAT(leavers_of(told_of_command(900, 3)), testing::IsEmpty());
}

}  // namespace
