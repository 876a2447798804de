// A database whose bytes were changed or cut off: whoever reads it is told, by name, and nothing else happens.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/store/maintain.h"
#include "harness/store/merge.h"
#include "harness/store/sqlite.h"
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
    const std::int64_t run = store.begin_run(test::a_run(name));
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

TEST_F(Damaged, ACheckOfACutFileSaysWhatIsWrongAndDoesNotThrow) {
  for (const std::size_t pages : {2, 5, 20}) {
    const std::string path = file("cut.db", whole_.substr(0, pages * 4096));
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
