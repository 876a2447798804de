// A database of an older schema is brought up to date: nothing that reports read is lost, and what was lost is found again.
#include <SQLiteCpp/SQLiteCpp.h>
#include <cmath>

#include <gtest/gtest.h>

#include "harness/evidence/packed.h"
#include "harness/store/maintain.h"
#include "harness/store/schema.h"
#include "harness/store/sqlite.h"
#include "nsa/base/hash.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/schema_1.h"
#include "tests/store/schema_4.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

using nlohmann::json;

// A database as the program of schema 1 wrote it.
class OldDatabase {
 public:
  explicit OldDatabase(const std::string& path)
      : database_(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {
    database_.exec(test::kSchema1);
    database_.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
    database_.exec("PRAGMA user_version = 1");
    (void)database_.execAndGet("PRAGMA journal_mode = WAL").getString();
  }

  void insert(const std::string& table, const std::vector<json>& values) {
    std::string marks;
    for (std::size_t i = 0; i < values.size(); ++i) marks += i == 0 ? "?" : ", ?";
    SQLite::Statement statement(database_, "INSERT INTO " + table + " VALUES (" + marks + ")");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int index = static_cast<int>(i) + 1;
      const json& value = values[i];
      if (value.is_null()) statement.bind(index);
      if (value.is_string()) statement.bind(index, value.get<std::string>());
      if (value.is_number_integer()) statement.bind(index, value.get<std::int64_t>());
      if (value.is_number_float()) statement.bind(index, value.get<double>());
    }
    statement.exec();
  }

  void add_run(std::int64_t id, const std::string& name) {
    insert("run",
           {id, name, "/runs/" + name, 1'000, 2'000, 1, 1, "c0ffee", 1, "d", "s", "b", "argv"});
    insert("provenance", {id, "machine", 0, "cpu", "x"});
  }

  void add_case(std::int64_t id, std::int64_t run) {
    insert("cases",
           {id,
            run,
            id,
            "fake",
            "fake",
            "0123456789abcdef",
            case_to_json(test::valid_case()),
            "",
            "01_fake",
            1'001,
            2.5});
    const auto add_event = [&](int seq, const Event& event) {
      insert("event", {id, seq, event.process, event.t_ms, event.kind, event.body.dump()});
    };
    Hello hello;
    hello.device = "cpu";
    add_event(0, Event::of(0, 1, hello));
    add_event(1, Event::of(0, 2, Sample{"loss", 1, 2.5}));
    add_event(2, Event::of(0, 3, Artefact{1, 0, "t", -1, "rank_0/t", 5, "beef"}));
    add_event(3, Event{0, 4, "unheard_of", json::object()});
  }

  void add_judgement(std::int64_t id,
                     std::int64_t case_row,
                     Outcome outcome,
                     const std::string& reason,
                     const std::vector<Finding>& findings = {}) {
    insert("judgement", {id, case_row, 5, name_of(outcome), "why"});
    insert("verdict", {id, id, 0, "close_to_oracle", "inconclusive", reason});
    insert("measured", {id, 0, "limited", 1.5, 4609434218613702656, 2.0, 4611686018427387904});
    insert("measured", {id, 1, "nan", nullptr, 9221120237041090560, nullptr, nullptr});
    int position = 0;
    for (const Finding& finding : findings) {
      const json body = finding;
      for (const json& verdict : {json(id), json()}) {
        insert("finding",
               {nullptr,
                id,
                verdict,
                position,
                body["code"],
                body["role"],
                body["status"],
                body["statement"],
                body.dump()});
      }
      ++position;
    }
  }

 private:
  SQLite::Database database_;
};

class MigrationTest : public ::testing::Test {
 protected:
  MigrationTest() {
    OldDatabase old(path_);
    old.add_run(3, "first");
    old.add_case(7, 3);
    old.add_judgement(1, 7, Outcome::pass, "good");
    old.add_judgement(2, 7, Outcome::inconclusive, "x of rank 0 is not there any more (pruned?)");
    old.add_run(4, "second");
    old.add_case(9, 4);
    Finding finding;
    finding.code = "GRAD.MISSING";
    finding.statement = "what";
    old.add_judgement(5, 9, Outcome::pass, "good");
    old.add_judgement(6, 9, Outcome::fail, "bad", {finding});
  }

  fakes::TempFolder folder_;
  std::string path_ = folder_ / "old.db";
};

TEST_F(MigrationTest, WhatReportsReadIsStillThere) {
  std::vector<std::string> notes;
  const auto store =
      Store::open(path_, false, [&](const std::string& note) { notes.push_back(note); });
  EXPECT_EQ(notes.size(), 2u);
  const auto run = store->run_named("first");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->id, 3);
  EXPECT_EQ(run->provenance.machine, (Pairs{{"cpu", "x"}}));
  EXPECT_EQ(run->exit_code, 1);
  const CaseRecord found = store->cases(3).at(0);
  EXPECT_EQ(found.id, 7);
  EXPECT_EQ(found.case_json, case_to_json(test::valid_case()));
  EXPECT_EQ(found.seconds, 2.5);
  EXPECT_EQ(found.digest.device, "cpu");
  EXPECT_EQ(found.digest.files.at(0).path, "rank_0/t");
  EXPECT_EQ(found.digest.metrics, (std::vector<std::pair<std::string, double>>{{"loss", 2.5}}));
  const auto& measured = found.judgement->verdicts.at(0).measured;
  EXPECT_EQ(measured.at(0).value, 1.5);
  EXPECT_EQ(measured.at(0).limit->value, 2.0);
  EXPECT_TRUE(std::isnan(measured.at(1).value));
  EXPECT_FALSE(measured.at(1).limit);
  EXPECT_TRUE(check_database(path_, {}).empty());
}

TEST_F(MigrationTest, AJudgementWithoutItsTensorsReportsNoMore) {
  const auto store = Store::open(path_, false);
  EXPECT_EQ(store->cases(3).at(0).judgement->outcome, Outcome::pass);
  EXPECT_EQ(store->cases(3).at(0).judged_without, 1);
  const auto second = store->cases(4).at(0).judgement;
  EXPECT_EQ(second->outcome, Outcome::fail) << "it had everything";
  ASSERT_EQ(second->findings.size(), 1u);
  EXPECT_EQ(second->findings[0].code, "GRAD.MISSING");
  ASSERT_EQ(second->verdicts.at(0).findings.size(), 1u);
  const auto history = store->history(store->cases(4).at(0), 5);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].outcome, Outcome::pass);
}

TEST_F(MigrationTest, TheTablesAreThoseOfANewDatabase) {
  { (void)Store::open(path_, false); }
  const std::string other = folder_ / "new.db";
  { (void)Store::open(other, true); }
  const auto schema = [](const std::string& path) {
    SQLite::Database database(path, SQLite::OPEN_READONLY);
    SQLite::Statement query(database,
                            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM "
                            "sqlite_schema ORDER BY type, name");
    std::string text;
    while (query.executeStep()) text += query.getColumn(0).getString() + "\n";
    return text;
  };
  EXPECT_EQ(schema(path_), schema(other));
}

TEST_F(MigrationTest, ReadersBringItUpToDateToo) {
  EXPECT_EQ(Store::open_read_only(path_)->cases(3).size(), 1u);
  EXPECT_EQ(Store::open_read_only(path_)->cases(4).size(), 1u);
}

TEST(Migration, ADatabaseOfSchema2CanKeepAcceptances) {
  const fakes::TempFolder folder;
  const std::string path = folder / "two.db";
  {
    SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec(test::kSchema2);
    database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.exec("PRAGMA user_version = 2");
    (void)database.execAndGet("PRAGMA journal_mode = WAL").getString();
  }
  const auto store = Store::open(path, false);
  EXPECT_EQ(SQLite::Database(path)
                .execAndGet("SELECT count(*) FROM sqlite_master WHERE name = 'cases_by_judgement'")
                .getInt(),
            1);
  const std::int64_t run = store->begin_run(test::a_run("a"));
  store->accept({"cell", run, 7, "why"});
  ASSERT_EQ(store->acceptances("cell").size(), 1U);
  EXPECT_EQ(store->acceptances("cell")[0].reason, "why");
  EXPECT_TRUE(store->acceptances("other").empty());
}

// One run of one case, as the program of schema 4 wrote it.
void write_schema_4(const std::string& path) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  database.exec(test::kSchema2);
  database.exec(test::kAddedTo3);
  database.exec(test::kAddedTo4);
  database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.exec("PRAGMA user_version = 4");
  database.exec(
      "INSERT INTO run VALUES (3, 'four', '/runs/four', 1000, 2000, 1, 1, 0, 'c', 0, '', '', '', "
      "'argv')");
  const std::string text = case_to_json(test::valid_case());
  SQLite::Statement content(database, "INSERT INTO content VALUES (2, ?, ?)");
  content.bind(1, nsa::hash_hex(text));
  bind_blob(content, 2, pack(text));
  content.exec();
  SQLite::Statement digest(database, "INSERT INTO digest VALUES (7, ?)");
  bind_blob(digest, 1, pack(digest_text({})));
  database.exec(
      "INSERT INTO cases VALUES (7, 3, 0, 'fake', 'fake', '', 'id', 'h', 2, '', '01', 1, 2.5, "
      "NULL, NULL, NULL)");
  digest.exec();
  Finding finding;
  finding.code = "GRAD.MISSING";
  database.exec(
      "INSERT INTO judgement VALUES (5, 7, 9, 1, 's', 'PASS', 'first'), (6, 7, 10, 1, 's', 'FAIL', "
      "'why')");
  database.exec(
      "INSERT INTO verdict VALUES (1, 6, 0, 'finite', 'fail', 'r'), (2, 6, 1, 'causal', 'pass', "
      "'q')");
  database.exec(
      "INSERT INTO measured VALUES (1, 0, 'x', 1.5, NULL, 2.0, NULL), (1, 1, 'y', NULL, "
      "9221120237041090560, NULL, 0)");
  SQLite::Statement found(
      database, "INSERT INTO finding VALUES (1, 6, 0, 0, 0, 'GRAD.MISSING', '', '', '', ?)");
  found.bind(1, json(finding).dump());
  found.exec();
  database.exec("UPDATE cases SET judgement_id = 6, outcome = 'FAIL', code = 'GRAD.MISSING'");
  database.exec("INSERT INTO accepted VALUES (1, 'h', 3, 4, 'because')");
}

TEST(Migration, ADatabaseOfSchema4KeepsItsJudgementsAndGetsAHash) {
  const fakes::TempFolder folder;
  const std::string path = folder / "four.db";
  write_schema_4(path);
  const auto store = Store::open(path, false);
  const CaseRecord record = store->cases(3).at(0);
  EXPECT_EQ(record.case_json, case_to_json(test::valid_case()));
  EXPECT_EQ(record.judgements, 2);
  EXPECT_FALSE(record.events_hash);
  ASSERT_TRUE(record.judgement);
  EXPECT_EQ(record.judgement->outcome, Outcome::fail);
  EXPECT_EQ(record.judgement->reason, "why");
  ASSERT_EQ(record.judgement->verdicts.size(), 2U);
  EXPECT_EQ(record.judgement->verdicts[0].findings.at(0).code, "GRAD.MISSING");
  EXPECT_EQ(record.judgement->findings.at(0).code, "GRAD.MISSING");
  const auto& measured = record.judgement->verdicts[0].measured;
  EXPECT_EQ(measured.at(0).limit->value, 2.0);
  EXPECT_TRUE(std::isnan(measured.at(1).value));
  EXPECT_FALSE(measured.at(1).limit);
  EXPECT_EQ(store->acceptances("h").at(0).reason, "because");
  EXPECT_TRUE(check_database(path, {}).empty());
  SQLite::Database(path, SQLite::OPEN_READWRITE).exec("UPDATE judgement SET outcome = 'PASS'");
  EXPECT_FALSE(check_database(path, {}).empty());
}

}  // namespace
}  // namespace harness
