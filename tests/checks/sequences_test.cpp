// How two sequences depart is told from them alone, whatever was drawn.
#include "harness/checks/gradients/sequences.h"

#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "harness/judge/find_cause.h"
#include "tests/checks/planted.h"
#include "tests/checks/planted_fixtures.h"

namespace {

using harness::checks::departure_of;
using harness::checks::IssuedInStep;
using harness::checks::SequenceGap;

class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}

  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

  // Few kinds: most operations are there several times.
  std::vector<int> sequence() {
    std::vector<int> made(static_cast<std::size_t>(2 + below(10)));
    const int kinds = 2 + below(6);
    for (int& one : made) one = below(kinds);
    return made;
  }

  std::vector<int> crossed(std::vector<int> sequence) {
    std::shuffle(sequence.begin(), sequence.end(), random_);
    return sequence;
  }

  std::vector<int> with_more(std::vector<int> sequence, int count) {
    for (int i = 0; i < count; ++i) {
      const int at = below(static_cast<int>(sequence.size()) + 1);
      sequence.insert(sequence.begin() + at, below(8));
    }
    return sequence;
  }

 private:
  std::mt19937 random_;
};

constexpr unsigned kDraws = 2000;

// What is told holds of the sequences: without what is extra, they are equal up to their order.
void expect_true_of(const SequenceGap& told, const IssuedInStep& a, const IssuedInStep& b) {
  const auto without = [](std::vector<int> operations, const std::vector<std::size_t>& places) {
    for (auto at = places.rbegin(); at != places.rend(); ++at) {
      operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(*at));
    }
    return operations;
  };
  auto rest_a = without(a.operations, told.extra_a);
  auto rest_b = without(b.operations, told.extra_b);
  if (told.order) {
    EXPECT_NE(rest_a, rest_b);
    std::sort(rest_a.begin(), rest_a.end());
    std::sort(rest_b.begin(), rest_b.end());
  }
  EXPECT_EQ(rest_a, rest_b);
}

TEST(Sequences, EqualOnesDoNotDepart) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    const auto a = Drawn(seed).sequence();
    EXPECT_EQ(departure_of({a, true}, {a, true}), SequenceGap{});
    EXPECT_EQ(departure_of({a, false}, {a, false}), SequenceGap{});
  }
}

TEST(Sequences, AnotherOrderIsNothingButOrder) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    Drawn drawn(seed);
    const auto a = drawn.sequence();
    const auto b = drawn.crossed(a);
    if (a == b) continue;
    EXPECT_EQ(departure_of({a, true}, {b, true}), (SequenceGap{true, {}, {}, false})) << seed;
  }
}

TEST(Sequences, WhatIsInsertedIsExtraOnItsSideAndNoOrder) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    Drawn drawn(seed);
    const IssuedInStep a{drawn.sequence(), true};
    const int count = 1 + drawn.below(3);
    const IssuedInStep b{drawn.with_more(a.operations, count), true};
    const SequenceGap told = departure_of(a, b);
    EXPECT_FALSE(told.order || told.other) << seed;
    EXPECT_TRUE(told.extra_a.empty());
    EXPECT_EQ(told.extra_b.size(), static_cast<std::size_t>(count));
    expect_true_of(told, a, b);
  }
}

TEST(Sequences, AddedAndCrossedAreBothTold) {
  int crossed = 0;
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    Drawn drawn(seed);
    const IssuedInStep a{drawn.sequence(), true};
    const IssuedInStep b{drawn.with_more(drawn.crossed(a.operations), 1), true};
    const SequenceGap told = departure_of(a, b);
    EXPECT_FALSE(told.other) << seed;
    EXPECT_EQ(told.extra_a.size() + told.extra_b.size(), 1U);
    if (!told.order) continue;  // the drawn order may be the same, or be explained without crossing
    ++crossed;
    const auto sorted = [](std::vector<int> of) { return std::sort(of.begin(), of.end()), of; };
    auto rest = b.operations;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(told.extra_b.at(0)));
    EXPECT_EQ(sorted(rest), sorted(a.operations)) << seed;
  }
  EXPECT_GT(crossed, static_cast<int>(kDraws / 2));
}

TEST(Sequences, TheSidesAreOfNoMatter) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    Drawn drawn(seed);
    const IssuedInStep a{drawn.sequence(), drawn.below(2) == 0};
    const IssuedInStep b{drawn.with_more(drawn.crossed(a.operations), drawn.below(3)), true};
    const SequenceGap one = departure_of(a, b);
    const SequenceGap other = departure_of(b, a);
    EXPECT_EQ(other, (SequenceGap{one.order, one.extra_b, one.extra_a, one.other})) << seed;
  }
}

TEST(Sequences, AnotherOperationInThePlaceOfOneIsNeither) {
  constexpr int kNowhereElse = 99;
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    Drawn drawn(seed);
    const auto a = drawn.sequence();
    auto b = a;
    b.at(static_cast<std::size_t>(drawn.below(static_cast<int>(b.size())))) = kNowhereElse;
    EXPECT_EQ(departure_of({a, true}, {b, true}), (SequenceGap{false, {}, {}, true})) << seed;
    EXPECT_FALSE(departure_of({a, false}, {b, false}).order) << seed;
  }
}

// A record that ended early lacks the rest. That is no extra of the other.
TEST(Sequences, ARecordThatEndedEarlyLacksNothing) {
  for (unsigned seed = 0; seed < kDraws; ++seed) {
    Drawn drawn(seed);
    const auto a = drawn.sequence();
    auto b = a;
    b.resize(static_cast<std::size_t>(drawn.below(static_cast<int>(b.size()))));
    EXPECT_EQ(departure_of({a, true}, {b, false}), SequenceGap{}) << seed;
  }
}

// Both ranks reduce every bucket twice, and one of them in another order: the order is what makes results wrong.
TEST(Sequences, WhereReductionsAreAddedAndCrossedTheOrderIsToldFirst) {
  fixtures::Healthy healthy(2, 1);
  fixtures::issue(healthy, 0, {10, 20, 10, 20});
  fixtures::issue(healthy, 1, {10, 20, 20, 10});
  auto findings = fixtures::run("gradients_agree", healthy.evidence).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings.front().code, "COMM.EXTRA");
  const auto desync = fixtures::run("collectives_agree", healthy.evidence).findings;
  findings.insert(findings.end(), desync.begin(), desync.end());
  ASSERT_EQ(findings.size(), 2U);
  harness::assign_roles(findings);
  EXPECT_EQ(findings[0].number, 2);
  EXPECT_EQ(findings[0].role, harness::Role::initiating);
  EXPECT_EQ(findings[1].code, "DESYNC.ORDER");
  EXPECT_EQ(findings[1].number, 1);
}

// Reductions that are too many on one rank alone make its sequence another one.
TEST(Sequences, WhatOneRankAddsIsTheCauseOfTheMismatch) {
  fixtures::Healthy healthy(2, 1);
  fixtures::issue(healthy, 0, {10, 20});
  fixtures::issue(healthy, 1, {10, 10, 20});
  auto findings = fixtures::run("collectives_agree", healthy.evidence).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].variant, "extra");
  const auto extra = fixtures::run("gradients_agree", healthy.evidence).findings;
  findings.insert(findings.end(), extra.begin(), extra.end());
  ASSERT_EQ(findings.size(), 2U);
  harness::assign_roles(findings);
  EXPECT_EQ(findings[1].code, "COMM.EXTRA");
  EXPECT_EQ(findings[1].number, 1);
  EXPECT_EQ(findings[0].follows, 1);
}

// ---- a mismatch that a back end waits on ----------------------------------------------------------------------------------

void leaves(fixtures::Healthy& healthy, int rank, const std::string& group, std::int64_t before) {
  for (std::int64_t sequence = 0; sequence < before; ++sequence) {
    fixtures::put(
        healthy.evidence.collectives_done, rank, harness::CollectiveDone{sequence, group}, 900);
  }
}

// Rank 1 sends fewer numbers in collectives 1 and 2 of the backward. The hosts are already in the optimizer; each rank left the
// collectives before its number of `pending`.
void wait_after_a_mismatch(fixtures::Healthy& healthy, const std::array<std::int64_t, 2>& pending) {
  fixtures::stopped(healthy, "still", "optimizer");
  healthy.evidence.collectives_done.clear();
  fixtures::issue(healthy, 0, {10, 20, 30, 40});
  fixtures::issue(healthy, 1, {10, 18, 28, 40});
  for (const int rank : {0, 1}) {
    leaves(healthy, rank, "default", pending.at(static_cast<std::size_t>(rank)));
    fixtures::look_at(healthy, rank, {"S", 5, {"wait"}}, {"S", 6, {"wait"}});
  }
}

std::vector<harness::Finding> found_after(const fixtures::Healthy& healthy) {
  auto findings = fixtures::run("collectives_agree", healthy.evidence).findings;
  const auto hang = fixtures::run("progress", healthy.evidence).findings;
  findings.insert(findings.end(), hang.begin(), hang.end());
  if (findings.size() == 2) harness::assign_roles(findings);
  return findings;
}

TEST(Sequences, AWaitFollowsFromTheMismatchThatItWaitsIn) {
  for (const std::int64_t pending : {1, 2, 3}) {
    fixtures::Healthy healthy(2, 1);
    wait_after_a_mismatch(healthy, {1, pending});
    const auto findings = found_after(healthy);
    ASSERT_EQ(findings.size(), 2U) << pending;
    EXPECT_EQ(findings[0].code, "DESYNC.SIZE");
    EXPECT_EQ(findings[0].role, harness::Role::initiating);
    EXPECT_EQ(findings[1].code, "HANG.COLLECTIVE");
    EXPECT_EQ(findings[1].site.sequence, 1);
    EXPECT_EQ(findings[1].site.phase, "backward");
    EXPECT_EQ(findings[1].follows, findings[0].number) << pending;
  }
}

TEST(Sequences, AWaitInAnotherGroupFollowsFromNoMismatch) {
  fixtures::Healthy healthy(2, 1);
  wait_after_a_mismatch(healthy, {4, 4});
  for (const int rank : {0, 1}) {
    for (std::int64_t sequence = 0; sequence < 3; ++sequence) {
      const harness::Collective row{
          sequence, 1, "backward", "allreduce", "sum", "Float", 4, "experts"};
      fixtures::put(healthy.evidence.collectives, rank, row, 950);
    }
    leaves(healthy, rank, "experts", 2);
  }
  const auto findings = found_after(healthy);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[1].code, "HANG.COLLECTIVE");
  EXPECT_EQ(findings[1].role, harness::Role::initiating);
}

}  // namespace
