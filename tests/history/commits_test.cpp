// The search for a commit against every place where the first bad one can be.
#include "harness/history/commits.h"

#include <gtest/gtest.h>

namespace harness::history {
namespace {

using Answers = std::vector<CommitAnswer>;

struct Path {
  CommitSearch answer;
  std::size_t tries = 0;
};

// What a history of `count` commits answers whose first bad one is `culprit`; those in `unknown` do not build.
Path search(std::size_t count, std::size_t culprit, const std::set<std::size_t>& unknown = {}) {
  Answers answers(count, CommitAnswer::untried);
  Path path;
  while (true) {
    path.answer = search_commits(answers);
    if (!path.answer.next) return path;
    const std::size_t at = *path.answer.next;
    EXPECT_EQ(answers.at(at), CommitAnswer::untried) << "asked twice";
    answers.at(at) = unknown.contains(at) ? CommitAnswer::unknown
                     : at >= culprit      ? CommitAnswer::bad
                                          : CommitAnswer::good;
    ++path.tries;
  }
}

TEST(Commits, EveryCulpritIsFoundInFewTries) {
  for (std::size_t culprit = 1; culprit < 17; ++culprit) {
    const Path path = search(17, culprit);
    EXPECT_TRUE(path.answer.is_found());
    EXPECT_EQ(path.answer.last, culprit);
    EXPECT_LE(path.tries, 6U);
  }
}

TEST(Commits, UnknownOnesAreGoneAround) {
  for (std::size_t culprit = 1; culprit < 17; ++culprit) {
    const std::set<std::size_t> unknown = {5, 8, 9};
    const Path path = search(17, culprit, unknown);
    EXPECT_LE(path.answer.first, culprit);
    EXPECT_GE(path.answer.last, culprit);
    for (std::size_t i = path.answer.first; i < path.answer.last; ++i) {
      EXPECT_TRUE(unknown.contains(i)) << "a commit that could be tried was not";
    }
  }
}

TEST(Commits, EndsThatAreNotWhatWasSaidEndTheSearch) {
  EXPECT_TRUE(search(9, 0).answer.contradicted) << "the good one is bad";
  EXPECT_TRUE(search(9, 9).answer.contradicted) << "the bad one is good";
  EXPECT_TRUE(search(9, 4, {8}).answer.contradicted) << "the bad one cannot be tried";
  EXPECT_FALSE(search(2, 1).answer.contradicted);
}

}  // namespace
}  // namespace harness::history
