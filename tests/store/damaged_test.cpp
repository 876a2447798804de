// A database whose bytes were changed or cut off: whoever reads it is told, by name, and nothing else happens.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/store/maintain.h"
#include "harness/store/merge.h"
#include "harness/store/sqlite.h"
#include "harness/store/verdict_log.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

using testing::HasSubstr;

class Damaged : public ::testing::Test {
 protected:
  Damaged() {
    const std::string path = folder_ / "whole.db";
    {
      const auto store = Store::open(path, true);
      for (int i = 0; i < 6; ++i) write_run(*store, "run" + std::to_string(i));
    }
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    whole_ = text.str();
  }

  static void write_run(Store& store, const std::string& name) {
    RunRecord record = test::a_run(name);
    record.provenance.machine = {{"cpu", "x"}};
    const std::int64_t run = store.begin_run(record);
    for (int i = 0; i < 5; ++i) {
      const std::int64_t row = store.plan_case(test::a_case(run, i, "case" + std::to_string(i)));
      Digest digest;
      digest.recorded = true;
      digest.series["loss"] = {1.0, 2.0};
      digest.metrics = {{kControlMs, 1.0}, {kStepMs, 2.0}};
      store.finish_case(row, 1.0, digest);
      Judgement judgement;
      judgement.outcome = Outcome::fail;
      Finding finding;
      finding.code = "GRAD.MISSING";
      judgement.verdicts.push_back(
          {"finite", Verdict::fail, "r", {{"x", 1.0, Real(2.0)}}, {finding}});
      judgement.findings = {finding};
      store.add_judgement(row, test::stored(judgement));
    }
    store.finish_run(run, 1, true, 9'000);
    store.accept({"cell", run, 7, "why"});
  }

  std::string file(const std::string& name, const std::string& bytes) {
    std::filesystem::remove(folder_ / (name + "-wal"));
    std::filesystem::remove(folder_ / (name + "-shm"));
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  // Everything that reports and history ask for.
  static void read_all(const std::string& path) {
    const auto store = Store::open_read_only(path);
    for (const RunRecord& run : store->runs(0, 1'000'000)) {
      (void)store->tally(run.id);
      for (const CaseRecord& record : store->cases(run.id)) {
        (void)store->history(record, 20);
        (void)store->namesake(record);
        (void)store->launches(record.history_id);
        (void)store->seconds_taken(record.history_id);
      }
    }
    (void)store->acceptances("cell");
    (void)store->last_run();
  }

  fakes::TempFolder folder_;
  std::string whole_;
};

TEST_F(Damaged, WhatIsReadIsRightOrAnErrorThatNamesTheFile) {
  constexpr int kFiles = 400;
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    std::string bytes = whole_;
    for (int change = 0; change < 1 + i % 40; ++change) {
      bytes[100 + random() % (bytes.size() - 100)] = static_cast<char>(random());
    }
    const std::string path = file("garbled.db", bytes);
    const std::string error = error_of([&] { read_all(path); });
    if (error == "no error") continue;
    ++refused;
    EXPECT_THAT(error, HasSubstr("garbled.db")) << "file " << i;
    (void)error_of([&] { (void)check_database(path, {}); });
  }
  std::cout << refused << " of " << kFiles << " refused\n";
  EXPECT_GT(refused, kFiles / 4);
}

// What a report is made of.
std::string told_of(const std::string& path) {
  const auto store = Store::open_read_only(path);
  std::string text;
  for (const RunRecord& run : store->runs(0, 1'000'000)) {
    text += run.name + std::to_string(run.exit_code) + run.provenance.argv + run.folder;
    for (const CaseRecord& record : store->cases(run.id)) {
      text += record.label + record.case_json + digest_text(record.digest);
      text += record.judgement ? judgement_json(*record.judgement).dump() : "";
      for (const Earlier& earlier : store->history(record, 20)) {
        text += earlier.run + name_of(earlier.outcome) + earlier.code;
      }
    }
  }
  return text;
}

TEST_F(Damaged, AFlippedBitNeverChangesWhatIsTold) {
  constexpr int kFlips = 600;
  const std::string wanted = told_of(file("whole.db", whole_));
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < kFlips; ++i) {
    std::string bytes = whole_;
    const std::size_t at = 100 + random() % (bytes.size() - 100);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    const std::string path = file("flipped.db", bytes);
    std::string told;
    const std::string error = error_of([&] { told = told_of(path); });
    if (error == "no error") {
      EXPECT_TRUE(told == wanted) << "byte " << at;
    } else {
      ++refused;
      EXPECT_THAT(error, HasSubstr("flipped.db"));
      const std::string thrown =
          error_of([&] { EXPECT_FALSE(check_database(path, {}).empty()) << error; });
    }
  }
  std::cout << refused << " of " << kFlips << " flips refused\n";
  EXPECT_GT(refused, kFlips / 10);
}

TEST_F(Damaged, AChangeOfAnyColumnIsSeen) {
  int columns = 0;
  for (const std::string table :
       {"run", "provenance", "cases", "digest", "metric", "judgement", "accepted", "content"}) {
    SQLite::Database whole(file("whole.db", whole_), SQLite::OPEN_READONLY);
    SQLite::Statement info(whole, "SELECT name, type FROM pragma_table_info('" + table + "')");
    while (info.executeStep()) {
      const std::string name = info.getColumn(0).getString();
      const std::string type = info.getColumn(1).getString();
      if (name == "id" && table != "run") continue;  // of no meaning: a merge gives others
      SCOPED_TRACE(table + "." + name);
      const std::string path = file("changed.db", whole_);
      {
        SQLite::Database database(path, SQLite::OPEN_READWRITE);
        const std::string other = type == "TEXT"   ? "coalesce(" + name + ", '') || 'x'"
                                  : type == "BLOB" ? "zeroblob(5)"
                                                   : "coalesce(" + name + ", 0) + 1000";
        const std::string row = table == "provenance" || table == "metric"
                                    ? "(run_id, position) = (SELECT run_id, position FROM "
                                      "provenance LIMIT 1)"
                                    : "rowid = (SELECT max(rowid) FROM " + table + ")";
        const std::string where =
            table == "metric" ? "(case_row, name) = (SELECT case_row, name FROM metric LIMIT 1)"
                              : row;
        database.exec("PRAGMA ignore_check_constraints = ON");
        database.exec("PRAGMA foreign_keys = OFF");
        try {
          ASSERT_GE(
              database.exec("UPDATE " + table + " SET " + name + " = " + other + " WHERE " + where),
              1);
        } catch (const SQLite::Exception& refused) {
          continue;  // by the table itself
        }
      }
      ++columns;
      const std::string thrown = error_of([&] { EXPECT_FALSE(check_database(path, {}).empty()); });
    }
  }
  EXPECT_GE(columns, 40);
}

TEST_F(Damaged, WhatWasChangedIsNotHashedAnew) {
  const std::string path = file("changed.db", whole_);
  SQLite::Database(path, SQLite::OPEN_READWRITE).exec("UPDATE judgement SET outcome = 'PASS'");
  const auto store = Store::open(path, false);
  EXPECT_THAT(error_of([&] { store->add_judgement(1, test::stored(Outcome::pass)); }),
              HasSubstr("run run0: its rows are not what was written"));
  EXPECT_THAT(error_of([&] { store->mark_pruned(1, 5); }), HasSubstr("not what was written"));
  EXPECT_THAT(error_of([&] {
                store->accept({"cell", 1, 7, "why"});
              }),
              HasSubstr("not what was written"));
}

TEST_F(Damaged, AMergeRefusesARunThatWasChanged) {
  const std::string path = file("changed.db", whole_);
  SQLite::Database(path, SQLite::OPEN_READWRITE)
      .exec("UPDATE cases SET outcome = 'PASS' WHERE run_id = 2");
  EXPECT_THAT(error_of([&] { (void)merge_database(folder_ / "new.db", path, {}); }),
              HasSubstr("run run1: its rows are not what was written"));
}

TEST_F(Damaged, ACheckOfACutFileSaysWhatIsWrongAndDoesNotThrow) {
  for (const std::size_t part : {20, 5, 2}) {
    const std::string path = file("cut.db", whole_.substr(0, whole_.size() / part));
    EXPECT_THAT(error_of([&] { read_all(path); }), HasSubstr(path));
    const auto wrong = check_database(path, {});
    ASSERT_FALSE(wrong.empty());
    EXPECT_THAT(wrong.front(), HasSubstr(path));
  }
  EXPECT_THAT(error_of([&] { (void)check_database(file("cut.db", whole_.substr(0, 50)), {}); }),
              HasSubstr("not a database"));
}

TEST_F(Damaged, AMergeTakesNothingOfItAndLeavesNoEmptyFile) {
  std::string bytes = whole_;
  for (std::size_t at = bytes.size() / 2; at < bytes.size(); ++at) bytes[at] = '\x5a';
  const std::string damaged = file("damaged.db", bytes);
  const std::string target = folder_ / "new.db";
  EXPECT_THAT(error_of([&] { (void)merge_database(target, damaged, {}); }), HasSubstr(damaged));
  for (const char* part : {"", "-wal", "-shm"}) {
    EXPECT_FALSE(std::filesystem::exists(target + part)) << part;
  }
  write_run(*Store::open(target, true), "mine");
  EXPECT_THAT(error_of([&] { (void)merge_database(target, damaged, {}); }), HasSubstr(damaged));
  EXPECT_EQ(Store::open_read_only(target)->runs(0, 1'000'000).size(), 1U);
}

}  // namespace
}  // namespace harness
