// Every query of reports, history and judging finds its rows by an index: a database of years answers like a new one.
#include <SQLiteCpp/SQLiteCpp.h>
#include <set>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "harness/store/sqlite.h"
#include "tests/fakes/temp_folder.h"
#include "tests/store/store_support.h"

namespace harness {
namespace {

int note_statement(unsigned, void* context, void* statement, void*) {
  const char* sql = sqlite3_sql(static_cast<sqlite3_stmt*>(statement));
  if (sql != nullptr) static_cast<std::set<std::string>*>(context)->insert(sql);
  return 0;
}

TEST(QueryPlan, NothingThatIsAskedOftenLooksAtWholeTables) {
  const fakes::TempFolder folder;
  const std::string path = folder / "runs.db";
  std::set<std::string> asked;
  {
    SQLite::Database database = open_database(path, true, {});
    sqlite3_trace_v2(database.getHandle(), SQLITE_TRACE_STMT, &note_statement, &asked);
    SqliteStore store(path, std::move(database));
    const std::int64_t run = store.begin_run(test::a_run("a"));
    const std::int64_t row = store.plan_case(test::a_case(run, 0, "fake"));
    store.begin_case(row, 1);
    store.finish_case(row, 1.0, {});
    store.add_judgement(row, test::stored(Outcome::pass));
    store.finish_run(run, 0, true, 2);
    (void)store.runs(0, 10'000);
    (void)store.run_named("a");
    (void)store.tally(run);
    const CaseRecord record = store.cases(run).at(0);
    (void)store.history(record, 20);
    (void)store.namesake(record);
    store.accept({record.history_id, run, 3, "why"});
    (void)store.launches(record.history_id);
    (void)store.seconds_taken(record.history_id);
    (void)store.seconds_taken(record.scenario, record.profile);
    (void)store.acceptances(record.history_id);
  }
  SQLite::Database database(path, SQLite::OPEN_READONLY);
  int looked_at = 0;
  for (const std::string& sql : asked) {
    const std::string verb = sql.substr(0, 6);
    if (verb != "SELECT" && verb != "UPDATE" && verb != "DELETE") continue;
    ++looked_at;
    SQLite::Statement plan(database, "EXPLAIN QUERY PLAN " + sql);
    while (plan.executeStep()) {
      const std::string step = plan.getColumn(3).getString();
      EXPECT_NE(step.substr(0, 4), "SCAN") << step << "\n" << sql;
    }
  }
  EXPECT_GE(looked_at, 15);
}

}  // namespace
}  // namespace harness
