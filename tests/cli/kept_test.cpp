// What is kept belongs together: files of one run in the folder of another one are refused by name, whatever they say.
#include <SQLiteCpp/SQLiteCpp.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/record/run_folder.h"
#include "harness/store/run_files.h"
#include "harness/store/run_hash.h"
#include "harness/store/verdict_log.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::HasSubstr;
using testing::Not;

// Two runs of the same case: one passed, one failed.
class KeptTest : public testing::Test {
 protected:
  KeptTest() {
    EXPECT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
    passed_ = fs::directory_iterator(program_.runs())->path();
    program_.set_mood("crash");
    EXPECT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 1);
    for (const auto& entry : fs::directory_iterator(program_.runs())) {
      if (entry.path() != passed_) failed_ = entry.path();
    }
  }

  void copy(const std::string& name) const {
    fs::copy_file(passed_ + "/" + name, failed_ + "/" + name, fs::copy_options::overwrite_existing);
  }

  // Neither a database that is made again nor a judgement takes it, and the report keeps what it said.
  void expect_refused(const std::string& named) const {
    const ProgramResult rebuilt =
        program_.run({"db", "rebuild", failed_, "--db", program_.folder() / "again.db"});
    EXPECT_EQ(rebuilt.exit_code, 6) << rebuilt.out << rebuilt.err;
    EXPECT_THAT(rebuilt.err, HasSubstr(named));
    const ProgramResult verified = program_.run({"report", "--verify", failed_ + "/report.md"});
    EXPECT_EQ(verified.exit_code, 6) << verified.out << verified.err;
    EXPECT_THAT(verified.out, HasSubstr("DIFFERS"));
    EXPECT_THAT(program_.run({"report", "last"}).out, HasSubstr("NO-GO"));
  }

  fakes::Program program_;
  std::string passed_;
  std::string failed_;
};

TEST_F(KeptTest, CopiedVerdictsNeverMakeAFailedRunGo) {
  copy("01_s/verdicts.jsonl");
  expect_refused("01_s/verdicts.jsonl:1: a judgement of another run");
  const ProgramResult judged = program_.run({"judge", "last"});
  EXPECT_EQ(judged.exit_code, 6) << judged.out << judged.err;
  EXPECT_THAT(judged.err, HasSubstr("01_s/verdicts.jsonl:1: a judgement of another run"));
}

TEST_F(KeptTest, CopiedEventsAreNotJudged) {
  copy("01_s/events.jsonl.zst");
  copy("01_s/events.jsonl.hash");
  expect_refused("01_s/verdicts.jsonl:1: judged other events");
  const ProgramResult judged = program_.run({"judge", "last"});
  EXPECT_EQ(judged.exit_code, 6) << judged.out << judged.err;
  EXPECT_THAT(judged.err, HasSubstr("events.jsonl: found events"));
  fs::remove(failed_ + "/01_s/verdicts.jsonl");
  EXPECT_EQ(program_.run({"judge", "last"}).exit_code, 6) << "the database knows them too";
}

TEST_F(KeptTest, ACopiedEndIsRefused) {
  copy("end.json");
  expect_refused("end.json: the end of another run");
}

TEST_F(KeptTest, AWholeCaseOfAnotherRunIsRefused) {
  fs::remove_all(failed_ + "/01_s");
  fs::copy(passed_ + "/01_s", failed_ + "/01_s", fs::copy_options::recursive);
  expect_refused("a judgement of another run");
}

// As an older version made it again from a folder with another run's verdicts.
TEST_F(KeptTest, AReportHoldsOutcomesAgainstTheEnd) {
  {
    SQLite::Database database(program_.database(), SQLite::OPEN_READWRITE);
    database.exec("UPDATE judgement SET outcome = 'PASS'");
    database.exec("UPDATE cases SET outcome = 'PASS'");
    harness::seal_run(database, 2);
  }
  const ProgramResult report = program_.run({"report", "2"});
  EXPECT_EQ(report.exit_code, 6) << report.err;
  EXPECT_THAT(report.err,
              HasSubstr("ended with exit code 1, but the judgements of its cases give 0"));
  EXPECT_EQ(program_.run({"report", "1"}).exit_code, 0);
}

// A pipe, or a link to one, in the place of any file of a record: nothing waits for it.
TEST_F(KeptTest, NothingWaitsForAPipeInARecord) {
  const std::string aside = program_.folder() / "aside";
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(failed_)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_GE(files.size(), 8U);
  for (const std::string& file : files) {
    for (const bool linked : {false, true}) {
      SCOPED_TRACE(file + (linked ? ", linked" : ""));
      fs::rename(file, aside);
      const std::string pipe = linked ? program_.folder() / "pipe" : file;
      fs::remove(program_.folder() / "pipe");
      ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
      if (linked) fs::create_symlink(pipe, file);
      fs::remove(program_.folder() / "pipe.db");
      for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
               {"judge", "last"},
               {"db", "rebuild", failed_, "--db", program_.folder() / "pipe.db"},
               {"report", "--verify", failed_ + "/report.md"},
               {"report", "--html", program_.folder() / "page.html"},
               {"report", "--format", "perfetto"},
               {"explain", "last", "1"},
               {"bundle", "last", "1", "--no-shrink", "--out", program_.folder() / "b"},
               {"db", "prune", "--keep", "90d"}}) {
        const ProgramResult result = program_.run(words, "20");
        EXPECT_THAT(result.exit_code, testing::AllOf(testing::Ge(0), testing::Le(6)))
            << testing::PrintToString(words) << result.out << result.err;
      }
      fs::remove(file);
      fs::rename(aside, file);
    }
  }
  const std::string again = program_.folder() / "again.db";
  EXPECT_EQ(program_.run({"db", "rebuild", failed_, "--db", again}).exit_code, 0);
}

}  // namespace
