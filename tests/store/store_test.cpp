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

TEST_F(StoreTest, RunsOfATimeSpanInTheOrderTheyBegan) {
  const auto store = Store::open(path_, true);
  EXPECT_FALSE(store->last_run());
  for (const auto& [name, at] :
       {std::pair{"b", 200}, {"c", 300}, {"a", 100}}) {  // another machine's, merged later
    RunRecord run = a_run(name);
    run.started_ms = at;
    (void)store->begin_run(run);
  }
  std::string names;
  for (const RunRecord& run : store->runs(100, 300)) names += run.name;
  EXPECT_EQ(names, "ab") << "from, but not until";
  EXPECT_EQ(store->last_run()->name, "a") << "the last that came into the database";
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
  store->finish_case(row, 1.25, {});
  EXPECT_EQ(reader->cases(run_)[0].started_ms, 77);
  EXPECT_EQ(reader->cases(run_)[0].seconds, 1.25);
}

TEST_F(StoreTest, ACaseIsDescribedOnceHoweverOftenItRuns) {
  const auto store = Store::open(path_, true);
  (void)plan(*store, "r1");
  (void)plan(*store, "r2");
  EXPECT_EQ(store->cases(run_).at(0).case_json, case_to_json(test::valid_case()));
  SQLite::Database database(path_, SQLite::OPEN_READONLY);
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM content").getInt(), 1);
}

Digest a_digest() {
  Digest digest;
  digest.recorded = true;
  digest.device = "cpu";
  digest.backend = "gloo";
  digest.torch_version = "2.11.0";
  digest.parameters = "12";
  digest.arrivals = {{1, 2, 3, 2, {"embed.weight"}}};
  digest.phases = {{0, "forward", 12}, {kTwin, "forward", 13}};
  digest.files = {{0, "rank_0/a \"b\"", 5, "beef"}};
  digest.series = {{"loss", {3.0, std::nan(""), -0.0}}};
  digest.metrics = {{"grad_norm", 1.5}, {"loss", -0.0}};
  return digest;
}

TEST_F(StoreTest, ADigestComesBack) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  EXPECT_FALSE(store->cases(run_).at(0).digest.recorded);
  store->finish_case(row, 1.0, a_digest());
  store->finish_case(row, 2.0, a_digest());  // judged again after a kill
  const Digest found = store->cases(run_).at(0).digest;
  EXPECT_TRUE(found.recorded);
  EXPECT_EQ(digest_text(found), digest_text(a_digest()));
  EXPECT_EQ(found.files.at(0).path, "rank_0/a \"b\"");
  EXPECT_TRUE(std::isnan(found.series.at("loss").at(1)));
  EXPECT_TRUE(std::signbit(found.series.at("loss").at(2)));
  EXPECT_EQ(found.metrics, a_digest().metrics);
}

TEST_F(StoreTest, UnknownCaseIsAnErrorNotALoss) {
  const auto store = Store::open(path_, true);
  EXPECT_THROW(store->begin_case(5, 1), nsa::Error);
  EXPECT_THROW(store->finish_case(5, 1.0, {}), nsa::Error);
  EXPECT_THROW(store->finish_run(5, 0, true, 1), nsa::Error);
  EXPECT_THROW(store->mark_pruned(5, 1), nsa::Error);
  EXPECT_NE(error_of([&] { store->add_judgement(5, test::stored(Outcome::pass)); }).find(path_),
            std::string::npos)
      << "foreign keys are on, and the file is named";
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

TEST_P(StoreReal, SurvivesInSeriesMetricAndMeasuredValue) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  Digest digest;
  digest.recorded = true;
  digest.series["x"] = {GetParam()};
  digest.metrics = {{"x", GetParam()}};
  store->finish_case(row, 1.0, digest);
  Judgement judgement;
  judgement.verdicts.push_back(
      {"c", Verdict::fail, "r", {{"m", GetParam(), GetParam()}, {"n", 0.0, {}}}, {}});
  store->add_judgement(row, test::stored(judgement));
  const CaseRecord found = store->cases(run_).at(0);
  ASSERT_EQ(found.digest.metrics.size(), 1u);
  expect_same(found.digest.metrics[0].second);
  expect_same(found.digest.series.at("x").at(0));
  const auto& measured = found.judgement->verdicts.at(0).measured;
  expect_same(measured.at(0).value);
  ASSERT_TRUE(measured.at(0).limit);
  expect_same(*measured.at(0).limit);
  EXPECT_FALSE(measured.at(1).limit);
}

TEST_P(StoreReal, ReadsRightForAPersonToo) {
  const auto store = Store::open(path_, true);
  Digest digest;
  digest.recorded = true;
  digest.metrics = {{"x", GetParam()}};
  store->finish_case(plan(*store), 1.0, digest);
  SQLite::Database database(path_, SQLite::OPEN_READONLY);
  SQLite::Statement query(database, "SELECT value FROM metric");
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
  first.status = Status::hypothesis;
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
  store->add_judgement(row, test::stored(a_judgement(), 5));
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

TEST_F(StoreTest, TheSameFindingTwiceIsKeptTwice) {
  const auto store = Store::open(path_, true);
  Judgement judgement = a_judgement();
  judgement.verdicts[0].findings.push_back(judgement.verdicts[0].findings[0]);
  judgement.findings.insert(judgement.findings.begin(), judgement.findings[0]);
  Finding of_nobody;
  of_nobody.code = "INFRA.CLOCK";
  judgement.findings.push_back(of_nobody);
  store->add_judgement(plan(*store), test::stored(judgement));
  const auto found = store->cases(run_).at(0).judgement;
  ASSERT_TRUE(found);
  EXPECT_EQ(nlohmann::json(found->findings), nlohmann::json(judgement.findings));
  EXPECT_EQ(nlohmann::json(found->verdicts), nlohmann::json(judgement.verdicts));
}

TEST_F(StoreTest, TheNewestJudgementReports) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_judgement(row, test::stored(a_judgement(), 5));
  store->add_judgement(row, test::stored(Outcome::pass));
  const CaseRecord found = store->cases(run_).at(0);
  EXPECT_EQ(found.judgements, 2);
  EXPECT_EQ(found.judged_without, 0);
  EXPECT_EQ(found.judgement->outcome, Outcome::pass);
  EXPECT_TRUE(found.judgement->findings.empty());
}

// A record never gets worse by being looked at.
TEST_F(StoreTest, AJudgementWithLessThanWasRecordedDoesNotReport) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_judgement(row, test::stored(Outcome::fail));
  store->add_judgement(row, test::stored(Outcome::pass));
  store->add_judgement(row, test::stored(Outcome::inconclusive, false));
  store->add_judgement(row, test::stored(a_judgement(), 9, false));
  const CaseRecord found = store->cases(run_).at(0);
  EXPECT_EQ(found.judgement->outcome, Outcome::pass);
  EXPECT_EQ(found.judgements, 4);
  EXPECT_EQ(found.judged_without, 2);
  EXPECT_EQ(store->tally(run_), (std::map<Outcome, int>{{Outcome::pass, 1}}));
  (void)plan(*store, "later");
  const auto history = store->history(store->cases(run_).at(0), 5);
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].outcome, Outcome::pass);
  EXPECT_EQ(history[0].code, "");
}

TEST_F(StoreTest, WhereNoneHadEverythingTheNewestReports) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  store->add_judgement(row, test::stored(Outcome::inconclusive, false));
  store->add_judgement(row, test::stored(Outcome::fail, false));
  EXPECT_EQ(store->cases(run_).at(0).judgement->outcome, Outcome::fail);
}

TEST_F(StoreTest, ATallyCountsWhatNeverRanAsWell) {
  const auto store = Store::open(path_, true);
  const std::int64_t row = plan(*store);
  CaseRecord skipped = a_case(run_, 1, "other");
  skipped.skip_reason = "no GPU";
  (void)store->plan_case(skipped);
  (void)store->plan_case(a_case(run_, 2, "third"));
  store->add_judgement(row, test::stored(Outcome::hang));
  EXPECT_EQ(
      store->tally(run_),
      (std::map<Outcome, int>{{Outcome::hang, 1}, {Outcome::skip, 1}, {Outcome::inconclusive, 1}}));
}

// ---- the same case in earlier runs ---------------------------------------------------------------------------------

class StoreHistory : public StoreTest {
 protected:
  std::int64_t add(const std::string& run, const Case& the_case, std::optional<Outcome> outcome) {
    run_ = store_->begin_run(a_run(run));
    CaseRecord record = a_case(run_, 0, the_case.label());
    record.scenario = the_case.scenario.name;
    record.case_json = case_to_json(the_case);
    const std::int64_t row = store_->plan_case(record);
    if (outcome) store_->add_judgement(row, test::stored(*outcome));
    return row;
  }

  // Outcomes before the newest run, newest first.
  [[nodiscard]] std::string seen() const {
    std::string text;
    for (const Earlier& earlier : store_->history(store_->cases(run_).at(0), 20)) {
      text += earlier.run + ":" + name_of(earlier.outcome) + " ";
    }
    return text;
  }

  std::unique_ptr<Store> store_ = Store::open(path_, true);
  const Case& case_ = test::valid_case();
};

TEST_F(StoreHistory, OnlyWhatWasDecidedCounts) {
  add("a", case_, Outcome::pass);
  add("b", case_, Outcome::error);
  add("c", case_, Outcome::inconclusive);
  add("d", case_, std::nullopt);
  add("e", case_, Outcome::crash);
  add("f", case_, Outcome::pass);
  EXPECT_EQ(seen(), "e:CRASH a:PASS ");
}

TEST_F(StoreHistory, RunsAreInTheOrderOfTheirClocksWhateverTheirNumbers) {
  const auto add_at = [&](const std::string& name, std::int64_t started_ms, Outcome outcome) {
    RunRecord run = a_run(name);
    run.started_ms = started_ms;
    run.id = store_->begin_run(run);
    store_->add_judgement(store_->plan_case(a_case(run.id, 0, "fake")), test::stored(outcome));
    return run.id;
  };
  run_ = add_at("now", 3'000, Outcome::pass);
  add_at("older", 1'000, Outcome::fail);  // of another machine, merged afterwards
  add_at("old", 2'000, Outcome::pass);
  add_at("later", 4'000, Outcome::crash);
  EXPECT_EQ(seen(), "old:PASS older:FAIL ");
  EXPECT_EQ(store_->last_run()->name, "later");
  CaseRecord other = store_->cases(run_).at(0);
  other.history_id = "another";
  EXPECT_TRUE(store_->history(other, 5).empty());
  EXPECT_EQ(store_->namesake(other)->run, "old");
  other.run_id = std::numeric_limits<std::int64_t>::max();  // not stored: after all others
  EXPECT_EQ(store_->namesake(other)->run, "later");
}

// A cell that one night leaves out is not forgotten: its launches of the newest run that has any count.
TEST_F(StoreHistory, SecondsAreThoseOfTheNewestRunThatMeasuredThem) {
  const auto add_at = [&](std::int64_t started_ms, const std::vector<double>& seconds) {
    RunRecord run = a_run("at " + std::to_string(started_ms));
    run.started_ms = started_ms;
    run.id = store_->begin_run(run);
    for (int i = 0; i < static_cast<int>(seconds.size()); ++i) {
      const std::int64_t row = store_->plan_case(a_case(run.id, i, "fake"));
      const double took = seconds[static_cast<std::size_t>(i)];
      if (took > 0.0) store_->finish_case(row, took, {});
    }
    return store_->cases(run.id).at(0);
  };
  const CaseRecord cell = add_at(2'000, {3.0, 4.0});
  EXPECT_EQ(store_->seconds_taken(cell.history_id), 7.0);
  add_at(3'000, {0.0});  // left out
  add_at(1'000, {100.0});
  EXPECT_EQ(store_->seconds_taken(cell.history_id), 7.0);
  EXPECT_EQ(store_->seconds_taken(cell.scenario, cell.profile), 7.0);
  EXPECT_EQ(store_->seconds_taken("another"), 0.0);
  EXPECT_EQ(store_->seconds_taken(cell.scenario, "another"), 0.0);
}

TEST_F(StoreHistory, AnotherCaseIsNoHistory) {
  const auto change = [&](const auto& edit) {
    Case other = case_;
    edit(other.scenario);
    return other;
  };
  const std::vector<Case> others = {
      change([](Scenario& s) { s.seed = 5; }),
      change([](Scenario& s) { s.profile = "gpu"; }),
      change([](Scenario& s) { s.training.precision = nsa::Precision::bf16; }),
      change([](Scenario& s) { s.model.w = 64; }),
      change([](Scenario& s) { s.parallel.bucket_mb = 3; }),
      change([](Scenario& s) { s.route["attend_sel"] = "gather"; }),
      change([](Scenario& s) { s.fault.emplace().name = "kcmp_detached"; }),
  };
  int number = 0;
  for (const Case& other : others) add(std::to_string(++number), other, Outcome::fail);
  add("now", case_, std::nullopt);
  EXPECT_EQ(seen(), "");
  const auto namesake = store_->namesake(store_->cases(run_).at(0));
  ASSERT_TRUE(namesake);
  EXPECT_EQ(namesake->run, std::to_string(number));
}

TEST_F(StoreHistory, HowItIsJudgedAndWhereItsTextLiesIsNoOtherCase) {
  Case other = case_;
  Scenario& scenario = other.scenario;
  scenario.about = "other words";
  scenario.text = "# a comment\n" + scenario.text;
  scenario.path = "/elsewhere/" + scenario.name + ".yaml";
  scenario.checks = {"process_clean"};
  scenario.expect = Expectation{Outcome::pass, "", {}};
  scenario.budget_seconds = 7;
  scenario.requires_memory_gib = 1;
  scenario.route["a_seam_of_tomorrow"] = "reference";
  scenario.training.data.text = {"/somewhere/HASH.txt"};
  scenario.training.data.as_written = {"../other/README.md"};
  add("a", other, Outcome::fail);
  scenario.training.data.as_written = {"README.md"};
  add("now", other, std::nullopt);
  EXPECT_EQ(seen(), "a:FAIL ");
}

TEST_F(StoreHistory, ARunThatWasSelectedPartlyHasItsOwn) {
  add("a", case_, Outcome::pass);
  const std::int64_t skipped = store_->begin_run(a_run("b"));
  CaseRecord record = a_case(skipped, 0, case_.label());
  record.case_json = case_to_json(case_);
  record.skip_reason = "no GPU";
  (void)store_->plan_case(record);
  add("now", case_, std::nullopt);
  EXPECT_EQ(seen(), "a:PASS ");
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
