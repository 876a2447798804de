// A failing case goes into a file, and another installation of the program sees it fail, or says what it saw instead.
#include "harness/bundle/bundle.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/file.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class BundleVerbTest : public testing::Test {
 protected:
  void run_here(const std::string& mood, const std::string& lines = "") const {
    here_.set_mood(mood);
    (void)here_.run({"run", here_.scenario(lines), "--quiet"});
  }
  [[nodiscard]] ProgramResult bundle(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"bundle", "last", "1", "--out", file()};
    words.insert(words.end(), more.begin(), more.end());
    return here_.run(words);
  }
  [[nodiscard]] ProgramResult replay(const std::string& mood,
                                     std::vector<std::string> more = {}) const {
    there_.set_mood(mood);
    std::vector<std::string> words = {"replay", file(), "--out", there_.folder() / "replayed"};
    words.insert(words.end(), more.begin(), more.end());
    return there_.run(words);
  }
  [[nodiscard]] std::string file() const { return here_.folder() / "failure.tar.zst"; }

  fakes::Program here_;
  fakes::Program there_;
};

TEST_F(BundleVerbTest, AReplaySeesTheSameFailureElsewhere) {
  run_here("crash");
  const ProgramResult made = bundle({"--no-shrink"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("CRASH  CRASH.SIGNAL"));
  EXPECT_THAT(made.out, EndsWith(file() + "\n"));
  const ProgramResult again = replay("crash");
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("SAME failure: CRASH.SIGNAL"));
  EXPECT_TRUE(fs::exists(there_.folder() / "replayed/runs.db"));
  EXPECT_FALSE(fs::exists(there_.database())) << "all of it lies in --out";
}

TEST_F(BundleVerbTest, AnotherFailureAndNoneAreToldApart) {
  run_here("crash");
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  const ProgramResult none = replay("ok");
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_THAT(none.out, HasSubstr("NOT reproduced: PASS, expected CRASH.SIGNAL"));
  const ProgramResult another = replay("exit7", {"--json"});
  EXPECT_EQ(another.exit_code, 2) << another.out;
  const nlohmann::json told = nlohmann::json::parse(another.out).at("replay");
  EXPECT_EQ(told.at("result"), "another");
  EXPECT_THAT(told.at("text").get<std::string>(), StartsWith("ANOTHER failure: "));
}

TEST_F(BundleVerbTest, WhatDiffersIsToldWhereItDidNotFailAlike) {
  run_here("crash");
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  std::ofstream(there_.folder() / "bin/nsa-harness-worker", std::ios::app) << "# another file\n";
  const ProgramResult none = replay("ok");
  EXPECT_THAT(none.out, HasSubstr("differs: binary: "));
  EXPECT_THAT(none.err, HasSubstr("differs: binary: "));
}

TEST_F(BundleVerbTest, AnExpectedFailureIsOneToo) {
  run_here("crash", "expect: {outcome: CRASH}\n");
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  const ProgramResult again = replay("crash");
  EXPECT_EQ(again.exit_code, 1) << "as a run that nobody expects anything of";
  EXPECT_THAT(again.out, HasSubstr("SAME failure"));
}

TEST_F(BundleVerbTest, TheSmallestThatFailsAlikeIsInTheBundle) {
  run_here("crash", "parallel: {ranks: 2}\n");
  const ProgramResult made = bundle({"--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const nlohmann::json told = nlohmann::json::parse(made.out);
  EXPECT_EQ(told.at("shrinking").get<std::string>().rfind("made smaller in ", 0), 0U) << told;
  const harness::Bundle bundle = harness::read_bundle_file(file());
  ASSERT_TRUE(bundle.original.has_value());
  EXPECT_EQ(bundle.failing.the_case.scenario.model.n_layers, 1);
  EXPECT_EQ(bundle.failing.the_case.scenario.parallel.ranks, 1);
  EXPECT_EQ(bundle.original->the_case.scenario.parallel.ranks, 2);
  EXPECT_EQ(bundle.tries.size(), told.at("tries").size());
  EXPECT_EQ(bundle.tries.front().changes, "none");
  EXPECT_THAT(replay("crash").out, HasSubstr("SAME failure"));
  EXPECT_THAT(replay("crash", {"--original"}).out, HasSubstr("SAME failure"));
  for (const auto& entry : fs::directory_iterator(here_.runs())) {
    EXPECT_THAT(entry.path().filename().string(), Not(StartsWith("tries_"))) << "left behind";
  }
  EXPECT_THAT(here_.run({"list", "--db", here_.database()}).out, Not(HasSubstr("tries")));
}

TEST_F(BundleVerbTest, WhatDoesNotFailAgainIsNotMadeSmaller) {
  run_here("crash");
  here_.set_mood("ok");
  const ProgramResult made = bundle();
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("did not fail alike when it ran again: PASS"));
  EXPECT_FALSE(harness::read_bundle_file(file()).original.has_value());
}

TEST_F(BundleVerbTest, TheSameCaseGivesTheSameFile) {
  run_here("crash");
  const auto bytes = [&] { return nsa::read_file(file(), 1 << 24); };
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  const std::string first = bytes();
  run_here("crash");  // at another time, in another folder
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  EXPECT_EQ(bytes(), first);
  ASSERT_EQ(bundle().exit_code, 0);
  const std::string smaller = bytes();
  ASSERT_EQ(bundle().exit_code, 0);
  EXPECT_EQ(bytes(), smaller);
}

TEST_F(BundleVerbTest, ADamagedFileIsOneClearError) {
  run_here("crash");
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  std::fstream damaged(file(), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(200);
  damaged.put('\1');
  damaged.close();
  const ProgramResult refused = replay("crash");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("failure.tar.zst: "));
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_FALSE(fs::exists(there_.folder() / "replayed"));
}

TEST_F(BundleVerbTest, WhatIsNotKnownHereIsRefused) {
  run_here("crash");
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  harness::Manifest manifest = fakes::manifest();
  manifest.source_hash = harness::built_source_hash();
  manifest.kinds = {"attention"};
  std::ofstream(there_.share() + "/manifest.json") << harness::manifest_text(manifest);
  const ProgramResult refused = replay("crash");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("kind: found \"training\""));
}

TEST_F(BundleVerbTest, WhatHasNoFailureGivesNoBundle) {
  run_here("ok");
  const ProgramResult passed = bundle();
  EXPECT_EQ(passed.exit_code, 3);
  EXPECT_THAT(passed.err, HasSubstr("case s: found PASS"));
  EXPECT_FALSE(fs::exists(file()));
  run_here("crash", "requires: {gpus: 64}\n");
  EXPECT_THAT(bundle().err, HasSubstr("case s: it was skipped (needs 64 GPUs"));
  (void)here_.run({"run", "--quiet", "--", "false"});
  EXPECT_EQ(bundle().exit_code, 3) << "a command";
  run_here("crash");
  fs::remove_all(fs::path(here_.runs()));
  const ProgramResult gone = bundle();
  EXPECT_EQ(gone.exit_code, 3);
  EXPECT_THAT(gone.err, HasSubstr("the text that it trained on was not kept"));
}

TEST_F(BundleVerbTest, NoSecretIsInTheFile) {
  here_.set_mood("crash");
  const std::string scenario = here_.scenario();
  setenv("NCCL_AUTH_TOKEN", "hunter2", 1);
  setenv("MY_SECRET", "hunter2", 1);
  setenv("NCCL_DEBUG", "WARN", 1);
  (void)here_.run({"run", scenario, "--quiet"});
  ASSERT_EQ(bundle({"--no-shrink"}).exit_code, 0);
  for (const char* name : {"NCCL_AUTH_TOKEN", "MY_SECRET", "NCCL_DEBUG"}) unsetenv(name);
  const harness::Bundle read = harness::read_bundle_file(file());
  const harness::Pairs wanted = {{"NCCL_DEBUG", "WARN"}};
  for (const auto& one : wanted) EXPECT_THAT(read.environment, testing::Contains(one));
  for (const auto& [name, value] : read.environment) {
    EXPECT_EQ(value.find("hunter2"), std::string::npos) << name;
    EXPECT_NE(name, "HOME");
    EXPECT_NE(name, "PATH");
  }
}

}  // namespace
