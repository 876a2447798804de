// `report --verify`: who alters the report, the log, a tensor or the database is found, by name.
#include <SQLiteCpp/SQLiteCpp.h>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/record/run_folder.h"
#include "harness/store/run_files.h"
#include "harness/store/store.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/file.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class VerifyTest : public testing::Test {
 protected:
  // One case that passes and whose rank wrote tensors. Its report is in `report_`.
  void run(const std::vector<std::string>& words) {
    program_.set_mood("two_passes");
    std::vector<std::string> all = {
        "run", program_.scenario("parallel: {ranks: 1}\n", "[process_clean, causal]"), "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    const fakes::ProgramResult result = program_.run(all);
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    report_ = result.out.substr(0, result.out.size() - 1);
    folder_ = fs::path(report_).parent_path();
  }

  void expect(int exit_code, const std::vector<std::string>& words) const {
    const fakes::ProgramResult result = program_.run({"report", "--verify", report_});
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    for (const std::string& word : words) EXPECT_THAT(result.out, HasSubstr(word));
  }

  void alter(const std::string& statement) const {
    SQLite::Database(program_.database(), SQLite::OPEN_READWRITE).exec(statement);
  }

  static void replace_in(const std::string& path, const std::string& old, const std::string& now) {
    std::string text = nsa::read_file(path, 1 << 24);
    const std::size_t at = text.find(old);
    ASSERT_NE(at, std::string::npos) << path;
    std::ofstream(path, std::ios::binary) << text.replace(at, old.size(), now);
  }

  fakes::Program program_;
  std::string report_;
  std::string folder_;
};

TEST_F(VerifyTest, WhatNobodyAlteredAgrees) {
  run({"--keep"});
  expect(0,
         {"the report is what the database gives; 1 case compared", "2 as recorded, 0 not kept"});
}

TEST_F(VerifyTest, ACopyIsComparedWithTheRunThatItNames) {
  run({"--keep"});
  const std::string copy = program_.folder() / "copy.md";
  fs::copy_file(report_, copy);
  run({"--keep"});
  report_ = copy;
  expect(0, {"the report is what the database gives"});
}

TEST_F(VerifyTest, TensorsThatWereNotKeptAreCounted) {
  run({});
  expect(0, {"0 as recorded, 2 not kept"});
}

TEST_F(VerifyTest, ARemovedTensorIsNamed) {
  run({"--keep"});
  const std::string path = folder_ + "/01_s/rank_0/step_1/attention_layer_0.safetensors";
  fs::remove(path);
  expect(6, {"DIFFERS " + path + ": not there", "1 as recorded, 1 not kept"});
  fs::remove_all(folder_ + "/01_s/rank_0");
  expect(6, {"DIFFERS " + path + ": not there", "0 as recorded, 2 not kept"});
}

TEST_F(VerifyTest, WhatPruneTookIsNoRemovedTensor) {
  run({"--keep"});
  const auto pruned = program_.run({"db", "prune", "--keep", "90d", "--tensors", "0"});
  ASSERT_EQ(pruned.exit_code, 0) << pruned.err;
  EXPECT_FALSE(fs::exists(folder_ + "/01_s/rank_0/step_1/attention_layer_0.safetensors"));
  expect(0, {"0 as recorded, 2 not kept"});
}

TEST_F(VerifyTest, ARemovedOrAlteredCaseFileIsNamed) {
  run({});
  const std::string path = folder_ + "/01_s/case.json";
  replace_in(path, "\"seq_len\":16", "\"seq_len\":17");
  expect(6, {"DIFFERS " + path + ": found another case than the one that was planned"});
  fs::remove(path);
  expect(6, {"DIFFERS", path});
}

TEST_F(VerifyTest, AnAlteredReportIsToldByItsLine) {
  run({"--keep"});
  replace_in(report_, "# GO", "# NO-GO");
  expect(6, {"DIFFERS " + report_ + ":1: found \"# NO-GO", "the database gives \"# GO"});
}

TEST_F(VerifyTest, AShortenedReportIsFound) {
  run({"--keep"});
  fs::resize_file(report_, fs::file_size(report_) - 1);
  expect(6, {"DIFFERS " + report_ + ":"});
}

TEST_F(VerifyTest, AnAlteredLogIsNamed) {
  run({"--keep"});
  const std::string at = folder_ + "/01_s/";
  fs::remove(at + harness::kPackedEventsFile);
  std::ofstream(at + harness::kEventsFile) << "";
  expect(6, {at + harness::kEventsFile, "altered"});
}

TEST_F(VerifyTest, AnAlteredVerdictIsNamed) {
  run({"--keep"});
  const std::string log = folder_ + "/01_s/" + harness::kVerdictsFile;
  replace_in(log, "\"PASS\"", "\"FAIL\"");
  expect(6, {log + ":1"});
}

TEST_F(VerifyTest, AnAlteredTensorIsNamed) {
  run({"--keep"});
  const std::string path = folder_ + "/01_s/rank_0/step_1/attention_layer_0.safetensors";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\1');  // of the same length
  file.close();
  expect(6, {"DIFFERS " + path + ": found hash "});
}

// Rows that the database's own hash does not know: nothing of them is told.
TEST_F(VerifyTest, AnAlteredDatabaseIsNamed) {
  run({"--keep"});
  const std::string kept = program_.database() + ".kept";
  fs::copy_file(program_.database(), kept);
  for (const char* statement : {"UPDATE judgement SET outcome = 'FAIL'",
                                "UPDATE judgement SET reason = 'all is well'",
                                "UPDATE run SET commit_id = 'c0ffee'",
                                "UPDATE cases SET label = 'other'",
                                "DELETE FROM metric",
                                "DELETE FROM cases"}) {
    SCOPED_TRACE(statement);
    for (const char* beside : {"-wal", "-shm"}) fs::remove(program_.database() + beside);
    fs::copy_file(kept, program_.database(), fs::copy_options::overwrite_existing);
    alter(statement);
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"report"},
                                               {"report", "--format", "json"},
                                               {"report", "--verify", report_},
                                               {"explain", "last", "1"},
                                               {"judge", "last"}}) {
      const fakes::ProgramResult result = program_.run(words);
      EXPECT_EQ(result.exit_code, 3) << testing::PrintToString(words) << result.out << result.err;
      EXPECT_THAT(result.err, HasSubstr("its rows are not what was written"));
    }
    const fakes::ProgramResult check = program_.run({"db", "check"});
    EXPECT_EQ(check.exit_code, 3) << check.out;
    EXPECT_THAT(check.out, HasSubstr("its rows are not what was written"));
  }
}

// What a program wrote that the folder does not have.
TEST_F(VerifyTest, WhatTheFolderDoesNotHaveIsNamed) {
  run({"--keep"});
  {
    const auto store = harness::Store::open(program_.database(), false);
    harness::StoredJudgement other;
    other.judgement.outcome = harness::Outcome::fail;
    store->add_judgement(store->cases(1).at(0).id, other);
  }
  expect(6, {"DIFFERS case s: ", "the database says", "the folder", "not what the database gives"});
}

TEST_F(VerifyTest, WhereNothingIsLeftToCompareItSaysSo) {
  run({"--keep"});
  const std::string elsewhere = program_.folder() / "report.md";
  fs::copy_file(report_, elsewhere);
  fs::remove_all(folder_);
  report_ = elsewhere;
  const fakes::ProgramResult result = program_.run({"report", "--verify", report_});
  EXPECT_EQ(result.exit_code, 3) << result.out;
  EXPECT_THAT(result.err, HasSubstr(folder_ + ": not there"));
}

}  // namespace
