// `bisect --commits` in a repository whose build is a script: 16 commits after the good one, of which some do not build.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/fakes/where.h"

namespace {

using testing::HasSubstr;
using testing::Not;

class BisectCommits : public testing::Test {
 protected:
  // Commit i holds i in `value`; those in `broken` (a list of words) do not build. From 11 on the test fails.
  void make_history(const std::string& broken) const {
    const auto made = harness::cli::run_command(
        {"sh",
         "-c",
         "set -e; mkdir \"$1\"; cd \"$1\"; git init -q; for i in $(seq 0 16); do echo $i > value; "
         "rm -f broken; for b in $2; do [ $i = $b ] && touch broken; done; git add -A; "
         "git -c user.name=n -c user.email=e commit -q -m \"commit $i\"; git tag t$i; done",
         "sh",
         repository(),
         broken});
    ASSERT_TRUE(made.ok());
  }

  [[nodiscard]] fakes::ProgramResult bisect(const std::string& good,
                                            const std::string& bad,
                                            const std::string& cache) const {
    return program_.run({"bisect",
                         "--commits",
                         good,
                         bad,
                         "--repository",
                         repository(),
                         "--cache",
                         cache,
                         "--build",
                         "echo built >> " + builds() + " && test ! -e broken && cp value made",
                         "--test",
                         "test $(cat made) -lt 11"});
  }

  [[nodiscard]] fakes::ProgramResult bisect(const std::string& good, const std::string& bad) const {
    return bisect(good, bad, program_.folder() / "cache");
  }

  // Commits whose step takes 5 % longer from 11 on, in launches that scatter by `noise`.
  [[nodiscard]] fakes::ProgramResult bisect_slower(const std::string& good,
                                                   const std::string& bad,
                                                   const std::string& noise,
                                                   const std::string& launch = "") const {
    const std::string timed = fakes::programs() + "/fake_controller timed " +
                              "\"$NSA_HARNESS_DB\" $((100 + 5 * ($(cat value) >= 11))) " + noise;
    return program_.run({"bisect",
                         "--commits",
                         good,
                         bad,
                         "--repository",
                         repository(),
                         "--cache",
                         program_.folder() / "cache",
                         "--build",
                         "true",
                         "--slower",
                         launch.empty() ? timed : launch});
  }

  [[nodiscard]] int built() const {
    std::ifstream file(builds());
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  [[nodiscard]] std::string repository() const { return program_.folder() / "repository"; }
  [[nodiscard]] std::string builds() const { return program_.folder() / "builds"; }

  fakes::Program program_;
};

TEST_F(BisectCommits, TheFirstBadOneIsFoundAndNothingIsBuiltTwice) {
  make_history("");
  const auto found = bisect("t0", "t16");
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr(" commit 11\n"));
  EXPECT_LE(built(), 6);
  const int before = built();
  EXPECT_EQ(bisect("t0", "t16").out, found.out);
  EXPECT_EQ(built(), before);
}

TEST_F(BisectCommits, ACacheMayBeARelativePath) {
  make_history("");
  const std::string cache = std::filesystem::relative(program_.folder() / "cache");
  const auto found = bisect("t0", "t16", cache);
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr(" commit 11\n"));
}

TEST_F(BisectCommits, WhatDoesNotBuildIsUnknown) {
  make_history("9 10");
  const auto found = bisect("t0", "t16");
  EXPECT_EQ(found.exit_code, 2) << found.err;
  EXPECT_THAT(found.out, HasSubstr("UNKNOWN"));
  for (const char* suspect : {" commit 9\n", " commit 10\n", " commit 11\n"}) {
    EXPECT_THAT(found.out, HasSubstr(suspect));
  }
  EXPECT_THAT(found.out, Not(HasSubstr(" commit 8\n")));
  EXPECT_THAT(found.out, Not(HasSubstr(" commit 12\n")));
}

TEST_F(BisectCommits, WhatCannotBeSearchedIsRefused) {
  make_history("");
  EXPECT_EQ(bisect("t0", "nothing").exit_code, 3);
  EXPECT_EQ(bisect("t16", "t0").exit_code, 3) << "the good one comes after the bad one";
  const auto good = bisect("t0", "t8");
  EXPECT_EQ(good.exit_code, 3);
  EXPECT_THAT(good.err, HasSubstr("the last one is good, wanted bad"));
}

TEST_F(BisectCommits, TheSlowOneIsFoundByLaunchesInTurn) {
  make_history("");
  const auto found = bisect_slower("t0", "t16", "0.02");
  EXPECT_EQ(found.exit_code, 0) << found.err;
  EXPECT_THAT(found.out, HasSubstr(" commit 11\n"));
  EXPECT_THAT(found.err, HasSubstr("against the good commit in 8 pairs"));
}

TEST_F(BisectCommits, WhereNothingBecameSlowerThereIsNothingToSearch) {
  make_history("");
  const auto good = bisect_slower("t0", "t10", "0.005");
  EXPECT_EQ(good.exit_code, 3);
  EXPECT_THAT(good.err, HasSubstr("the last one is good, wanted bad"));
  const auto unclear = bisect_slower("t0", "t10", "0.1");
  EXPECT_EQ(unclear.exit_code, 3) << "a slowdown of some per cent is not excluded";
  EXPECT_THAT(unclear.err, HasSubstr("the last one is UNKNOWN, wanted bad"));
  const auto noisy = bisect_slower("t0", "t16", "0.9");
  EXPECT_EQ(noisy.exit_code, 3) << noisy.out;
  EXPECT_THAT(noisy.err, HasSubstr("the last one is UNKNOWN, wanted bad"));
}

TEST_F(BisectCommits, ALaunchWithoutATimeIsUnknown) {
  make_history("");
  const auto found = bisect_slower("t0", "t16", "", "exit 0");
  EXPECT_EQ(found.exit_code, 3);
  EXPECT_THAT(found.err, HasSubstr("a launch recorded no time"));
}

TEST_F(BisectCommits, OneQuestionIsWanted) {
  make_history("");
  const auto none =
      program_.run({"bisect", "--commits", "t0", "t16", "--repository", repository()});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("--slower"));
}

}  // namespace
