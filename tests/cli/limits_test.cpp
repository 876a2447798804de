// Signals and limits: what is ignored stays ignored, and what cannot be written any more ends in the documented exit code, with a
// sentence that says what.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/file.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::HasSubstr;
using testing::Not;

class LimitsTest : public testing::Test {
 protected:
  // In a shell that has the program as $P; stderr is told apart.
  [[nodiscard]] ProgramResult shell(const std::string& script) const {
    const auto result = harness::cli::run_command({"env",
                                                   "-u",
                                                   "NSA_HARNESS_DB",
                                                   "-u",
                                                   "XDG_DATA_HOME",
                                                   "HOME=" + program_.folder().path(),
                                                   "P=" + (program_.folder() / "bin/nsa-harness"),
                                                   "D=" + program_.database(),
                                                   "bash",
                                                   "-c",
                                                   "{ " + script + "; } 2>\"$HOME/err\""},
                                                  120'000);
    return {result.exit_code, result.out, nsa::read_file(program_.folder() / "err", 1 << 22)};
  }

  fakes::Program program_;
};

TEST_F(LimitsTest, ASignalThatIsIgnoredAtTheStartEndsNothing) {
  for (const char* number : {"HUP", "TERM", "INT"}) {
    const ProgramResult result =
        shell(std::string("trap '' ") + number + "; $P run --quiet -- sh -c 'kill -" + number +
              " $(ps -o ppid= -p $PPID); sleep 0.2; exit 3'; echo code $?");
    EXPECT_THAT(result.out, HasSubstr("code 1")) << number << result.out << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("interrupted")));
  }
}

TEST_F(LimitsTest, AFileThatMayNotGrowIsFiveWithASentence) {
  const ProgramResult result = shell("ulimit -f 8; $P run --quiet -- sh -c 'exit 0'; exit $?");
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  EXPECT_THAT(
      result.err,
      testing::AnyOf(
          HasSubstr("File too large"), HasSubstr("disk is full"), HasSubstr("disk I/O error")));
}

TEST_F(LimitsTest, ADatabaseThatVanishedIsFive) {
  for (const char* harm : {"rm -f \"$D\"*", "mv \"$D\" \"$D.old\"; cp \"$D.old\" \"$D\""}) {
    const ProgramResult result =
        shell(std::string("export D; $P run --quiet -- sh -c '") + harm + "; exit 0'; exit $?");
    EXPECT_EQ(result.exit_code, 5) << harm << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("the database vanished or was replaced during the run"));
    EXPECT_THAT(result.err, HasSubstr("nsa-harness db rebuild " + program_.runs()));
    for (const auto& entry : fs::directory_iterator(fs::path(program_.database()).parent_path())) {
      if (entry.path().filename().string().starts_with("runs.db")) fs::remove(entry.path());
    }
  }
}

TEST_F(LimitsTest, ADatabaseThatMayOnlyBeReadIsFiveAndCanBeChecked) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const std::string space = geteuid() == 0 ? "unshare -m" : "unshare -Urm";
  const std::string folder = fs::path(program_.database()).parent_path();
  const auto read_only = [&](const std::string& command) {
    return shell("exec " + space + " sh -c 'mount --bind " + folder + " " + folder +
                 " && mount -o remount,ro,bind " + folder + " && " + command + "'");
  };
  if (read_only("true").exit_code != 0) GTEST_SKIP() << "no file system can be mounted here";
  const ProgramResult run =
      read_only("$P run --quiet --out \"$HOME/elsewhere\" " + program_.scenario());
  EXPECT_EQ(run.exit_code, 5) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("runs.db"));
  EXPECT_EQ(read_only("$P run --quiet " + program_.scenario()).exit_code, 5);
  EXPECT_EQ(read_only("$P judge last").exit_code, 5);
  EXPECT_EQ(read_only("$P report --out " + folder + "/r").exit_code, 5);
  EXPECT_EQ(read_only("$P db check").exit_code, 0);
  EXPECT_EQ(read_only("$P report").exit_code, 0);
}

TEST_F(LimitsTest, WhatNobodyGotIsFive) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const std::string run = "run --json " + program_.scenario();
  for (const std::string& words : {std::string("--help"),
                                   std::string("--version"),
                                   std::string("db --help"),
                                   std::string("version"),
                                   std::string("list --schema"),
                                   run}) {
    for (const char* redirection : {">/dev/full", "| true"}) {
      const ProgramResult result =
          shell("$P " + words + " " + redirection + "; exit ${PIPESTATUS[0]}");
      const bool is_pipe = *redirection == '|';
      if (is_pipe && words != run) continue;  // whether it was read is a race
      EXPECT_EQ(result.exit_code, 5) << words << redirection << result.err;
      EXPECT_THAT(result.err, HasSubstr("stdout was lost"));
    }
  }
}

// As the clock of a machine that is set while it runs: faketime is not at hand, so the record is looked at.
TEST_F(LimitsTest, JudgingARunThatHasNotEndedSaysSo) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const std::string run = fs::directory_iterator(program_.runs())->path();
  fs::remove(run + "/end.json");
  const std::string db = program_.folder() / "x.db";
  ASSERT_EQ(program_.run({"db", "rebuild", run, "--db", db}).exit_code, 0);
  const ProgramResult judged = program_.run({"judge", "last", "--db", db});
  EXPECT_EQ(judged.exit_code, 5) << judged.out << judged.err;
  EXPECT_THAT(judged.err, HasSubstr("has not ended"));
}

TEST_F(LimitsTest, NothingThatSteersATerminalIsPrinted) {
  const std::string label =
      "a\x9b"
      "b\xc2\x9b"
      "31mc\xe2\x80\xae"
      "d\xe2\x81\xa6"
      "e";
  const ProgramResult result = program_.run({"run", "--", "sh", "-c", "exit 3", label});
  const auto steers = [](const std::string& text) {
    for (const char* bytes : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\x1b["}) {
      if (text.find(bytes) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_FALSE(steers(result.out + result.err)) << result.out << result.err;
  for (const char* format : {"engineer", "json", "junit", "html", "github"}) {
    EXPECT_FALSE(steers(program_.run({"report", "--format", format}).out)) << format;
  }
  EXPECT_FALSE(steers(program_.run({"explain", "last", "1"}).out));
}

TEST_F(LimitsTest, AJudgementIsNotAddedThroughALink) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const std::string run = fs::directory_iterator(program_.runs())->path();
  const std::string log = run + "/01_s/verdicts.jsonl";
  const std::string aside = program_.folder() / "aside";
  fs::rename(log, aside);
  fs::create_symlink(aside, log);
  const auto before = fs::file_size(aside);
  EXPECT_EQ(program_.run({"judge", "last"}).exit_code, 5);
  EXPECT_EQ(fs::file_size(aside), before);
  fs::rename(run + "/01_s", program_.folder() / "moved");
  fs::create_symlink(program_.folder() / "moved", run + "/01_s");
  EXPECT_EQ(program_.run({"judge", "last"}).exit_code, 6);
}

}  // namespace
