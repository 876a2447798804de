// Every option that names a file to write, of every verb: what is there and is no regular file is never replaced, and no link that
// somebody else made is followed.
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/verbs.h"
#include "nsa/base/file.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::HasSubstr;

using Words = std::vector<std::string>;

class OutputsTest : public testing::Test {
 protected:
  OutputsTest() {
    program_.set_mood("crash");
    EXPECT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 1);
    fs::create_directories(exported());
    fs::copy_file(fakes::tree() + "/tests/golden/attention_s9.safetensors", golden());
  }

  struct Output {
    std::string option;  // as "report --out"
    Words words;         // without the option and its file
    std::string file;    // that is written
    std::string given;   // what the option names: the file, or its folder
    int exit_code = 0;   // where it can be written
    int refused = 3;     // where it is refused: after a night, the night's own
  };

  [[nodiscard]] std::vector<Output> outputs() const {
    const std::string out = program_.folder() / "out";
    const std::string night = program_.folder() / "night.db";
    const Words nightly = {
        "nightly", "--scenarios", program_.scenario(), "--db", night, "--budget", "1h"};
    return {{"report --out", {"report"}, out, out},
            {"report --html", {"report"}, out, out},
            {"report --out", {"report", "--format", "junit"}, out, out},
            {"report --out", {"report", "--format", "json"}, out, out},
            {"report --out", {"report", "--format", "perfetto"}, out, out},
            {"bundle --out", {"bundle", "last", "1", "--no-shrink"}, out, out},
            {"golden --export",
             {"golden", golden(), "--oracle-only"},
             exported() + "/mine.safetensors",
             exported()},
            {"nightly --report", nightly, out, out, 1, 1},
            {"nightly --summary", nightly, out, out, 1, 1}};
  }

  [[nodiscard]] std::string golden() const { return program_.folder() / "mine.safetensors"; }
  [[nodiscard]] std::string exported() const { return program_.folder() / "exported"; }

  [[nodiscard]] ProgramResult write(const Output& output) const {
    Words words = output.words;
    words.push_back(output.option.substr(output.option.find(' ') + 1));
    words.push_back(output.given);
    return program_.run(words);
  }

  fakes::Program program_;
};

TEST_F(OutputsTest, AllOptionsThatNameAFileAreTried) {
  std::set<std::string> tried;
  for (const Output& output : outputs()) tried.insert(output.option);
  tried.insert("db export --out");  // only a new file: below
  tried.insert("doctor --db");      // reads
  const std::regex file(
      R"(\n +(--[a-z]+) TEXT[^\n]*(written to|to write|added to|A file for|The new database|Write a file))");
  std::vector<Words> verbs = {{"db", "export"}, {"db", "merge"}, {"db", "rebuild"}};
  for (const harness::cli::Verb& verb : harness::cli::verbs()) verbs.push_back({verb.name});
  int found = 0;
  for (Words verb : verbs) {
    const std::string name = verb.size() == 1 ? verb[0] : verb[0] + " " + verb[1];
    verb.emplace_back("--help");
    const std::string help =
        std::regex_replace(program_.run(verb).out, std::regex(R"(\n {16,})"), " ");
    for (std::sregex_iterator at(help.begin(), help.end(), file), end; at != end; ++at) {
      ++found;
      EXPECT_TRUE(tried.contains(name + " " + (*at)[1].str())) << name << " " << (*at)[1];
    }
  }
  EXPECT_GE(found, 6);
}

TEST_F(OutputsTest, ALinkIsRefusedByNameAndLeadsNowhere) {
  const std::string victim = program_.folder().write("victim", "old");
  for (const Output& output : outputs()) {
    SCOPED_TRACE(testing::PrintToString(output.words));
    fs::remove(output.file);
    fs::create_symlink(victim, output.file);
    const ProgramResult result = write(output);
    EXPECT_EQ(result.exit_code, output.refused) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(output.file + ": found a symbolic link"));
    EXPECT_TRUE(fs::is_symlink(output.file));
    EXPECT_EQ(nsa::read_file(victim, 10), "old");
    // Under the name of a draft as older versions made it.
    fs::remove(output.file);
    fs::remove(output.file + ".part");
    fs::create_symlink(victim, output.file + ".part");
    EXPECT_EQ(write(output).exit_code, output.exit_code);
    EXPECT_TRUE(fs::is_regular_file(output.file));
    EXPECT_EQ(nsa::read_file(victim, 10), "old");
  }
}

TEST_F(OutputsTest, ADeviceStaysADevice) {
  const std::string node = program_.folder() / "null";
  if (mknod(node.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "no device can be made here";
  }
  const std::string probe = program_.folder() / "probe";
  if (open(node.c_str(), O_WRONLY | O_CLOEXEC) < 0) GTEST_SKIP() << "no device can be opened here";
  for (const Output& output : outputs()) {
    SCOPED_TRACE(testing::PrintToString(output.words));
    fs::remove(output.file);
    ASSERT_EQ(mknod(output.file.c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
    const ProgramResult result = write(output);
    EXPECT_EQ(result.exit_code, output.exit_code) << result.out << result.err;
    EXPECT_TRUE(fs::is_character_file(output.file));
    fs::remove(output.file);
  }
}

TEST_F(OutputsTest, APipeIsWrittenIntoOrRefusedAndNeverWaitedFor) {
  for (const Output& output : outputs()) {
    SCOPED_TRACE(testing::PrintToString(output.words));
    fs::remove(output.file);
    ASSERT_EQ(mkfifo(output.file.c_str(), 0600), 0);
    const ProgramResult refused = write(output);
    EXPECT_EQ(refused.exit_code, output.refused) << refused.out << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("a pipe that nobody reads"));
    const int reader = open(output.file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    fcntl(reader, F_SETPIPE_SZ, 1 << 20);
    const ProgramResult result = write(output);
    EXPECT_EQ(result.exit_code, output.exit_code) << result.out << result.err;
    std::array<char, 16> got{};
    EXPECT_GT(read(reader, got.data(), got.size()), 0);
    close(reader);
    EXPECT_TRUE(fs::is_fifo(output.file));
    fs::remove(output.file);
  }
}

TEST_F(OutputsTest, ADatabaseIsExportedIntoANewFileOnly) {
  const std::string victim = program_.folder() / "victim.db";
  const std::string out = program_.folder() / "out.db";
  for (const std::string& planted : {out, out + ".part"}) {
    SCOPED_TRACE(planted);
    fs::create_symlink(victim, planted);
    const ProgramResult result = program_.run({"db", "export", "1", "--out", out});
    EXPECT_EQ(result.exit_code, planted == out ? 3 : 0) << result.err;
    EXPECT_FALSE(fs::exists(victim));
    fs::remove(planted);
  }
}

// By the command under test, which knows where its record lies.
TEST_F(OutputsTest, WhatACommandPlantsInItsRecordIsNotFollowed) {
  const std::string victim = program_.folder().write("victim", "old");
  const std::string planting =
      "for f in events.jsonl.hash events.jsonl.zst verdicts.jsonl; do ln -s \"$V\" "
      "\"$D\"/*/*/$f.part; "
      "ln -s \"$V\" \"$(echo \"$D\"/*/01_*)\"/$f; done; ln -s \"$V\" \"$(echo "
      "\"$D\"/*)\"/end.json.part; "
      "ln -s \"$V\" \"$(echo \"$D\"/*)\"/end.json; ln -s \"$V\" \"$(echo \"$D\"/*)\"/report.md; "
      "true";
  const std::string runs = program_.folder() / "planted";
  const ProgramResult result = program_.run({"run",
                                             "--quiet",
                                             "--out",
                                             runs,
                                             "--",
                                             "env",
                                             "V=" + victim,
                                             "D=" + runs,
                                             "sh",
                                             "-c",
                                             planting});
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("found a symbolic link"));
  EXPECT_EQ(nsa::read_file(victim, 1 << 20), "old");
}

}  // namespace
