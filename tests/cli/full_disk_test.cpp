// What every verb ends with where nothing more can be written, and where the database is damaged: the codes of docs/commands.md.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

class RecordingTest : public testing::Test {
 protected:
  RecordingTest() {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
    }
  }

  // The program below a shell that takes something from it: `around` ends with exec "$@".
  [[nodiscard]] ProgramResult within(const std::string& around, const Words& words) const {
    Words argv = {"env",
                  "-u",
                  "NSA_HARNESS_DB",
                  "HOME=" + program_.folder().path(),
                  "small=" + (program_.folder() / "small"),
                  "timeout",
                  "60",
                  "sh",
                  "-c",
                  "exec 2>\"$HOME/err\"; " + around,
                  "sh",
                  program_.folder() / "bin/nsa-harness"};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto result = harness::cli::run_command(argv, 90'000);
    std::ifstream file(program_.folder() / "err");
    std::stringstream err;
    err << file.rdbuf();
    return {result.exit_code, result.out, err.str()};
  }

  // What writes, with what it writes in `folder`.
  [[nodiscard]] std::vector<Words> writers(const std::string& folder) const {
    std::string run;
    for (const auto& entry : fs::directory_iterator(program_.runs())) run = entry.path();
    const std::string db = folder + "/x.db";
    return {{"run", program_.scenario(), "--quiet", "--db", db},
            {"run", program_.scenario(), "--quiet", "--out", folder + "/runs"},
            {"report", "--out", folder + "/report.md"},
            {"report", "--html", folder + "/report.html"},
            {"db", "merge", program_.database(), "--db", db},
            {"db", "export", "1", "--out", folder + "/some.db"},
            {"db", "rebuild", run, "--db", db},
            {"golden",
             fakes::tree() + "/tests/golden/attention_s9.safetensors",
             "--oracle-only",
             "--export",
             folder}};
  }

  fakes::Program program_;
};

TEST_F(RecordingTest, AFullDiskIsFive) {
  fs::create_directories(program_.folder() / "small");
  std::string space = "unshare -m";
  const auto in_small = [&](const std::string& size, const Words& words) {
    return within("exec " + space + " sh -c 'mount -t tmpfs -o size=" + size +
                      " tmpfs \"$small\" && head -c 4096 /dev/zero >\"$small/filler\" && exec "
                      "\"$@\"' sh \"$@\"",
                  words);
  };
  if (in_small("1m", {"version"}).exit_code != 0) space = "unshare -Urm";
  const ProgramResult may = in_small("1m", {"version"});
  if (may.exit_code != 0) GTEST_SKIP() << "no file system can be mounted here: " << may.err;
  for (const Words& words : writers(program_.folder() / "small")) {
    const ProgramResult full = in_small("4k", words);
    EXPECT_EQ(full.exit_code, 5) << testing::PrintToString(words) << "\n" << full.out << full.err;
    EXPECT_THAT(full.err, Not(HasSubstr("internal error")));
    // With a little more some of it can be written. A case that has too little room is an ERROR, which is 6.
    for (const char* size : {"16k", "64k", "128k", "256k", "400k", "1m"}) {
      const ProgramResult result = in_small(size, words);
      const bool is_run = words.front() == "run";
      EXPECT_THAT(result.exit_code, testing::AnyOf(5, is_run ? 6 : 0))
          << size << " " << testing::PrintToString(words) << "\n"
          << result.out << result.err;
    }
  }
}

// The same without any right: no file may be larger than so many blocks.
TEST_F(RecordingTest, FilesThatCannotGrowAreFive) {
  for (const Words& words : writers(program_.folder().path())) {
    const ProgramResult result = within("ulimit -f 2; exec \"$@\"", words);
    EXPECT_EQ(result.exit_code, 5) << testing::PrintToString(words) << "\n"
                                   << result.out << result.err;
  }
}

TEST_F(RecordingTest, ADamagedDatabaseIsThreeAndNothingIsRun) {
  const std::string whole = program_.folder() / "whole.db";
  const std::string damaged = program_.folder() / "damaged.db";
  const std::string scenario = program_.scenario();
  EXPECT_EQ(program_.run({"db", "export", "1", "2", "3", "--out", whole}).exit_code, 0);
  const auto size = fs::file_size(whole);
  for (const bool garbled : {false, true}) {
    fs::copy_file(whole, damaged, fs::copy_options::overwrite_existing);
    if (garbled) {
      std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(4096);
      file << std::string(size - 4096, 'Z');
    } else {
      fs::resize_file(damaged, size / 2);
    }
    const std::size_t folders = static_cast<std::size_t>(
        std::distance(fs::directory_iterator(program_.runs()), fs::directory_iterator()));
    for (const Words& words :
         std::vector<Words>{{"run", scenario, "--out", program_.runs()},
                            {"report"},
                            {"report", "--since", "7d"},
                            {"report", "--html", program_.folder() / "x.html"},
                            {"history", "s"},
                            {"list", "--db"},
                            {"judge", "last"},
                            {"compare", "1", "last"},
                            {"baseline", "show", "s"},
                            {"db", "merge", whole},
                            {"db", "prune", "--keep", "90d"},
                            {"db", "export", "1", "--out", program_.folder() / "some.db"}}) {
      Words with = words;
      if (words.front() == "list") {
        with.push_back(damaged);
      } else {
        with.insert(with.end(), {"--db", damaged});
      }
      const ProgramResult result = program_.run(with);
      EXPECT_EQ(result.exit_code, 3) << testing::PrintToString(words) << "\n"
                                     << result.out << result.err;
      EXPECT_THAT(result.err, HasSubstr("damaged.db")) << testing::PrintToString(words);
    }
    EXPECT_EQ(static_cast<std::size_t>(
                  std::distance(fs::directory_iterator(program_.runs()), fs::directory_iterator())),
              folders);
    const ProgramResult check = program_.run({"db", "check", "--db", damaged});
    EXPECT_EQ(check.exit_code, 3) << check.out << check.err;
    EXPECT_THAT(check.out, HasSubstr("damaged.db"));
    const ProgramResult merge =
        program_.run({"db", "merge", damaged, whole, "--db", program_.folder() / "merged.db"});
    EXPECT_EQ(merge.exit_code, 3) << merge.out << merge.err;
    EXPECT_THAT(merge.err, HasSubstr("NOT MERGED " + damaged));
    EXPECT_THAT(merge.out, HasSubstr(whole + ": "));
  }
}

}  // namespace
