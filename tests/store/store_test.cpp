// The store: what goes in comes out, what is not ours is refused and left alone.
#include "harness/store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "harness/store/schema.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

using test::a_case;
using test::a_run;

class StoreTest : public ::testing::Test {
 protected:
  std::int64_t plan(Store& store,
                    const std::string& run = "run-1",
                    const std::string& label = "fake") {
    run_ = store.begin_run(a_run(run));
    return store.plan_case(a_case(run_, 0, label));
  }

  fakes::TempFolder folder_;
  std::string path_ = folder_ / "deep/er/runs.db";
  std::int64_t run_ = 0;
};

TEST_F(StoreTest, RunAndItsProvenanceComeBack) {
  const auto store = Store::open(path_, true);
  RunRecord run = a_run("20261121T041900Z-1a2b");
  run.provenance.machine = {{"z", "1"}, {"a", "2"}};
  run.provenance.environment = {{"OMP_NUM_THREADS", "1"}};
  const std::int64_t id = store->begin_run(run);
  auto found = store->run_named(run.name);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, id);
  EXPECT_EQ(found->folder, run.folder);
  EXPECT_EQ(found->exit_code, -1);
  EXPECT_EQ(found->ended_ms, 0);
  EXPECT_FALSE(found->complete);
  EXPECT_EQ(found->provenance.machine, run.provenance.machine) << "in the order given";
  EXPECT_EQ(found->provenance.environment, run.provenance.environment);
  EXPECT_EQ(found->provenance.argv, run.provenance.argv);
  EXPECT_TRUE(found->provenance.dirty);
  store->finish_run(id, 2, true, 99);
  found = store->run_named(std::to_string(id));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->exit_code, 2);
  EXPECT_EQ(found->ended_ms, 99);
  EXPECT_TRUE(found->complete);
  EXPECT_FALSE(store->run_named("nobody"));
  EXPECT_THROW(store->begin_run(run), nsa::Error) << "names are unique";
}

TEST_F(StoreTest, RunsOfATimeSpanOldestFirst) {
  const auto store = Store::open(path_, true);
  EXPECT_FALSE(store->last_run());
  for (const auto& [name, at] : {std::pair{"b", 200}, {"a", 100}, {"c", 300}}) {
    RunRecord run = a_run(name);
    run.started_ms = at;
    (void)store->begin_run(run);
  }
  std::string names;
  for (const RunRecord& run : store->runs(100, 300)) names += run.name;
  EXPECT_EQ(names, "ab") << "from, but not until";
  EXPECT_EQ(store->last_run()->name, "c");
}

TEST_F(StoreTest, PlannedCaseIsThereBeforeAnythingRan) {
  const auto store = Store::open(path_, true);
  run_ = store->begin_run(a_run("r"));
  CaseRecord skipped = a_case(run_, 1, "other");
  skipped.skip_reason = "no GPU";
  (void)store->plan_case(skipped);
  const std::int64_t row = store->plan_case(a_case(run_, 0, "fake"));
  const auto reader = Store::open_read_only(path_);
  const auto cases = reader->cases(run_);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].id, row);
  EXPECT_EQ(cases[1].skip_reason, "no GPU");
  EXPECT_EQ(cases[0].started_ms, 0);
  EXPECT_FALSE(cases[0].judgement);
  store->begin_case(row, 77);
  store->finish_case(row, 1.25);
  EXPECT_EQ(reader->cases(run_)[0].started_ms, 77);
  EXPECT_EQ(reader->cases(run_)[0].seconds, 1.25);
}

TEST_F(StoreTest, EvidenceIsRebuiltFromItsRows) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  Hello hello;
  hello.source_hash = "hash";
  const std::vector<Event> events = {Event::of(kController, 0, Started{0, 12}),
                                     Event::of(0, 1, hello),
                                     Event::of(0, 2, Bucket{1, 0, 5, "float32", {3, 1}}),
                                     Event::of(0, 3, Fact{"text", std::string("a\0b\n\"", 5)}),
                                     Event::of(0, 3, Sample{"loss", 1, 2.5}),
                                     Event::of(kController, 4, Exited{0, 0})};
  for (const Event& event : events) store->add_event(row, event);
  store->finish_case(row, 1.0);
  const auto run = store->last_run();
  const Evidence found = store->evidence(store->cases(run_).at(0), *run);
  EXPECT_EQ(found.folder, run->folder + "/cases/0");
  EXPECT_EQ(found.the_case.scenario.name, "ddp_onestep");
  EXPECT_EQ(found.hellos.at(0).row.source_hash, "hash");
  EXPECT_EQ(found.buckets.at(0).row.params, (std::vector<int>{3, 1}));
  EXPECT_EQ(found.facts.at(0).row.value, std::string("a\0b\n\"", 5));
  EXPECT_EQ(found.samples.at(0).t_ms, 3);
  EXPECT_NE(found.exit_of(0), nullptr);
}

TEST_F(StoreTest, EventsContinueAfterReopening) {
  std::int64_t row = 0;
  {
    const auto store = Store::open(path_, true);
    row = plan(*store);
    store->add_event(row, Event::of(0, 1, Fact{"first", ""}));
  }  // the destructor writes what was buffered
  const auto store = Store::open(path_, true);
  store->add_event(row, Event::of(0, 2, Fact{"second", ""}));
  store->flush();
  const Evidence found = store->evidence(store->cases(1).at(0), *store->last_run());
  ASSERT_EQ(found.facts.size(), 2u);
  EXPECT_EQ(found.facts[1].row.name, "second");
}

TEST_F(StoreTest, ManyEventsAreWrittenWithoutBeingAskedTo) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  for (int i = 0; i < 512; ++i)
    store->add_event(row, Event::of(0, i, Fact{"n", std::to_string(i)}));
  const auto reader = Store::open_read_only(path_);
  EXPECT_EQ(reader->evidence(reader->cases(run_).at(0), *reader->last_run()).facts.size(), 512u);
}

TEST_F(StoreTest, UnknownCaseIsAnErrorNotALoss) {
  const auto store = Store::open(path_, true);
  EXPECT_THROW(store->begin_case(5, 1), nsa::Error);
  EXPECT_THROW(store->finish_run(5, 0, true, 1), nsa::Error);
  store->add_event(5, Event::of(0, 0, Done{}));
  EXPECT_THROW(store->flush(), nsa::Error) << "foreign keys are on";
}

// ---- doubles -------------------------------------------------------------------------------------------------------

class StoreReal : public StoreTest, public ::testing::WithParamInterface<double> {
 protected:
  static void expect_same(double found) {
    if (std::isnan(GetParam())) {
      EXPECT_TRUE(std::isnan(found));
    } else {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(found), std::bit_cast<std::uint64_t>(GetParam()))
          << found;
    }
  }
};

TEST_P(StoreReal, SurvivesAsSampleMetricAndMeasuredValue) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_event(row, Event::of(0, 1, Sample{"x", 1, GetParam()}));
  Judgement judgement;
  judgement.verdicts.push_back(
      {"c", Verdict::fail, "r", {{"m", GetParam(), GetParam()}, {"n", 0.0, {}}}, {}});
  store->add_judgement(row, judgement, 1);
  const CaseRecord found = store->cases(run_).at(0);
  ASSERT_EQ(found.metrics.size(), 1u);
  expect_same(found.metrics[0].second);
  expect_same(store->evidence(found, *store->last_run()).samples.at(0).row.value);
  const auto& measured = found.judgement->verdicts.at(0).measured;
  expect_same(measured.at(0).value);
  ASSERT_TRUE(measured.at(0).limit);
  expect_same(*measured.at(0).limit);
  EXPECT_FALSE(measured.at(1).limit);
}

TEST_P(StoreReal, ReadsRightForAPersonToo) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_event(row, Event::of(0, 1, Sample{"x", 1, GetParam()}));
  store->flush();
  SQLite::Database database(path_, SQLite::OPEN_READONLY);
  SQLite::Statement query(database, "SELECT value FROM sample");
  ASSERT_TRUE(query.executeStep());
  EXPECT_EQ(query.isColumnNull(0), std::isnan(GetParam()));
  if (!std::isnan(GetParam())) {
    EXPECT_EQ(query.getColumn(0).getDouble(), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Values,
                         StoreReal,
                         ::testing::Values(0.0,
                                           -0.0,
                                           std::numeric_limits<double>::quiet_NaN(),
                                           -std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::denorm_min(),
                                           -std::numeric_limits<double>::denorm_min(),
                                           std::numeric_limits<double>::min(),
                                           std::numeric_limits<double>::max(),
                                           std::numeric_limits<double>::lowest(),
                                           0.1,
                                           1.0,
                                           9007199254740993.0,
                                           1e300));

TEST_F(StoreTest, MetricIsTheLastValueOfRankZero) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_event(row, Event::of(0, 1, Sample{"loss", 1, 3.0}));
  store->add_event(row, Event::of(0, 2, Sample{"loss", 2, 2.0}));
  store->add_event(row, Event::of(1, 3, Sample{"loss", 2, 9.0}));
  store->add_event(row, Event::of(kTwin, 4, Sample{"loss", 2, 8.0}));
  store->flush();
  const auto metrics = store->cases(run_).at(0).metrics;
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0].second, 2.0);
}

// ---- judgements ----------------------------------------------------------------------------------------------------

Judgement a_judgement() {
  Finding first;
  first.code = "GRAD.MISSING";
  first.site.layers = {3};
  first.site.param = "W_K_cmp";
  first.site.detail["count"] = 2;
  first.statement = "what";
  first.ruled_out = "not";
  first.next_action = "do";
  first.role = Role::initiating;
  first.status = Status::established;
  Finding second;
  second.code = "HANG.HOST";
  second.role = Role::cascade;
  Judgement judgement;
  judgement.outcome = Outcome::fail;
  judgement.reason = "one line";
  judgement.verdicts.push_back({"b_first", Verdict::fail, "why", {{"x", 1.5, Real(2.0)}}, {first}});
  judgement.verdicts.push_back({"a_second", Verdict::inconclusive, "missing", {}, {second}});
  judgement.findings = {first, second};
  return judgement;
}

TEST_F(StoreTest, JudgementComesBackWhole) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_judgement(row, a_judgement(), 5);
  const auto found = store->cases(run_).at(0).judgement;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outcome, Outcome::fail);
  EXPECT_EQ(found->reason, "one line");
  ASSERT_EQ(found->verdicts.size(), 2u);
  const Judgement wanted = a_judgement();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(nlohmann::json(found->verdicts[i]), nlohmann::json(wanted.verdicts[i]));
  }
  EXPECT_EQ(nlohmann::json(found->findings), nlohmann::json(wanted.findings));
}

TEST_F(StoreTest, SecondJudgementStandsBesideTheFirst) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_judgement(row, a_judgement(), 5);
  Judgement later;
  later.outcome = Outcome::pass;
  store->add_judgement(row, later, 6);
  const CaseRecord found = store->cases(run_).at(0);
  EXPECT_EQ(found.judgements, 2);
  EXPECT_EQ(found.judgement->outcome, Outcome::pass);
  EXPECT_TRUE(found.judgement->findings.empty());
}

TEST_F(StoreTest, PreviousIsTheNewestJudgedCaseOfTheSameLabel) {
  const auto store = Store::open(path_, true);
  std::vector<std::int64_t> rows;
  for (const char* name : {"r1", "r2", "r3", "r4"}) rows.push_back(plan(*store, name));
  store->add_judgement(rows[0], a_judgement(), 1);
  store->add_judgement(rows[1], a_judgement(), 1);  // r3 was never judged
  store->add_judgement(rows[3], a_judgement(), 1);
  const std::int64_t other = plan(*store, "r5", "fake[x=1]");
  const CaseRecord now = store->cases(run_ - 1).at(0);
  const auto before = store->previous(now, now.run_id);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->id, rows[1]);
  EXPECT_TRUE(before->judgement);
  EXPECT_FALSE(store->previous(*before, 1));
  const CaseRecord labelled = store->cases(run_).at(0);
  EXPECT_EQ(labelled.id, other);
  EXPECT_FALSE(store->previous(labelled, labelled.run_id));
}

// ---- files that are not ours ---------------------------------------------------------------------------------------

class RefusedFile : public StoreTest {
 protected:
  void expect_refused(const std::string& path, const std::string& why) {
    const std::string before = nsa::hash_file(path);
    for (const bool create : {true, false}) {
      const std::string message = error_of([&] { (void)Store::open(path, create); });
      EXPECT_EQ(message.rfind(path, 0), 0u) << message;
      EXPECT_NE(message.find(why), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
    EXPECT_NE(error_of([&] { (void)Store::open_read_only(path); }).find(why), std::string::npos);
    EXPECT_EQ(nsa::hash_file(path), before);
    for (const char* suffix : {"-wal", "-shm", "-journal"})
      EXPECT_FALSE(std::filesystem::exists(path + suffix));
  }
};

TEST_F(RefusedFile, Text) {
  expect_refused(folder_.write("a.db", "version: 1\nscenario: x\n"), "not a database");
}
TEST_F(RefusedFile, Short) {
  expect_refused(folder_.write("a.db", "x"), "not a database");
}
TEST_F(RefusedFile, HeadAlone) {
  expect_refused(
      folder_.write("a.db", std::string("SQLite format 3\0", 16) + std::string(5000, 'x')),
      "another application");
}

TEST_F(RefusedFile, OtherApplication) {
  const std::string path = folder_ / "other.db";
  SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE songs (name TEXT)");
  expect_refused(path, "another application");
}

TEST_F(RefusedFile, OtherApplicationWithAnIdAndNoTables) {
  const std::string path = folder_ / "other.db";
  SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("PRAGMA application_id = 7");
  expect_refused(path, "another application");
}

TEST_F(RefusedFile, NewerSchema) {
  { (void)Store::open(path_, true); }
  {
    SQLite::Database database(path_, SQLite::OPEN_READWRITE);
    database.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion + 1));
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  expect_refused(path_, "newer");
}

TEST_F(StoreTest, MissingFileIsMadeOnlyWhenAsked) {
  EXPECT_NE(error_of([&] { (void)Store::open(path_, false); }).find("no such"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_NE(error_of([&] { (void)Store::open_read_only(path_); }).find("no such"),
            std::string::npos);
  EXPECT_NE(error_of([&] { (void)Store::open(folder_.path(), true); }).find("not a file"),
            std::string::npos);
}

TEST_F(StoreTest, FolderThatCannotBeMadeIsAnError) {
  const std::string file = folder_.write("plain", "x");
  EXPECT_NE(error_of([&] { (void)Store::open(file + "/runs.db", true); }).find(file),
            std::string::npos);
}

TEST_F(StoreTest, EmptyFileBecomesADatabaseOrIsRefused) {
  const std::string path = folder_.write("empty.db", "");
  EXPECT_NE(error_of([&] { (void)Store::open(path, false); }).find("empty"), std::string::npos);
  EXPECT_NO_THROW((void)Store::open(path, true))
      << "a process killed in the first moment leaves one";
}

TEST_F(StoreTest, ReadOnlyStoreNeverWrites) {
  { (void)plan(*Store::open(path_, true)); }
  const auto store = Store::open_read_only(path_);
  EXPECT_THROW(store->begin_run(a_run("x")), nsa::Error);
  EXPECT_EQ(store->runs(0, std::numeric_limits<std::int64_t>::max()).size(), 1u);
}

TEST_F(StoreTest, FileSaysWhoseItIs) {
  { (void)Store::open(path_, true); }
  SQLite::Database database(path_, SQLite::OPEN_READONLY);
  EXPECT_EQ(database.execAndGet("PRAGMA application_id").getInt(), kApplicationId);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), kSchemaVersion);
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "wal");
  SQLite::Statement loose(
      database,
      "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND NOT strict "
      "AND type = 'table' AND name NOT LIKE 'sqlite_%'");
  loose.executeStep();
  EXPECT_EQ(loose.getColumn(0).getInt(), 0) << "every table is STRICT";
}

}  // namespace
}  // namespace harness
