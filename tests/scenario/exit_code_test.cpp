#include "harness/scenario/exit_code.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace {

using harness::exit_code;
using harness::Outcome;
using Outcomes = std::vector<Outcome>;

struct Row {
  Outcomes outcomes;
  int code;
};

TEST(ExitCode, Table) {
  const std::vector<Row> table = {
      {{}, 4},
      {{Outcome::skip}, 4},
      {{Outcome::skip, Outcome::skip}, 4},
      {{Outcome::pass}, 0},
      {{Outcome::pass, Outcome::skip}, 0},
      {{Outcome::pass, Outcome::xfail}, 0},
      {{Outcome::fail}, 1},
      {{Outcome::hang}, 1},
      {{Outcome::slow}, 1},
      {{Outcome::crash}, 1},
      {{Outcome::oom}, 1},
      {{Outcome::xpass}, 1},
      {{Outcome::error}, 6},
      {{Outcome::inconclusive}, 2},
      {{Outcome::inconclusive, Outcome::pass}, 2},
      {{Outcome::inconclusive, Outcome::skip}, 2},
      {{Outcome::error, Outcome::inconclusive, Outcome::pass}, 6},
      {{Outcome::error, Outcome::fail}, 1},
      {{Outcome::pass, Outcome::hang, Outcome::error, Outcome::inconclusive}, 1},
  };
  for (const Row& row : table) {
    EXPECT_EQ(exit_code(row.outcomes, false), row.code);
    EXPECT_EQ(exit_code(row.outcomes, true), 5) << "incomplete comes first";
  }
}

// The laws behind the table: green needs a PASS, order means nothing, and another case never hides a failure.
TEST(ExitCode, Laws) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Outcomes outcomes(random() % 6);
    for (Outcome& outcome : outcomes) outcome = static_cast<Outcome>(random() % 11);
    const int code = exit_code(outcomes, false);
    const auto has = [&](Outcome wanted) {
      return std::find(outcomes.begin(), outcomes.end(), wanted) != outcomes.end();
    };
    if (code == 0) {
      EXPECT_TRUE(has(Outcome::pass));
      for (const Outcome& outcome : outcomes) {
        EXPECT_TRUE(outcome == Outcome::pass || outcome == Outcome::skip ||
                    outcome == Outcome::xfail);
      }
    }
    std::shuffle(outcomes.begin(), outcomes.end(), random);
    EXPECT_EQ(exit_code(outcomes, false), code);
    outcomes.push_back(Outcome::pass);
    if (code != 4 && !(code == 2 && !has(Outcome::inconclusive))) {
      EXPECT_EQ(exit_code(outcomes, false), code) << "a PASS hides nothing";
    }
    outcomes.push_back(Outcome::crash);
    EXPECT_EQ(exit_code(outcomes, false), 1);
  }
}

}  // namespace
