#include "harness/store/maintain.h"

#include "harness/store/content.h"
#include "harness/store/run_hash.h"
#include "harness/store/sqlite.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

void look_at_texts(SQLite::Database& database, std::vector<std::string>& wrong) {
  SQLite::Statement query(database, "SELECT id FROM content");
  ContentReader content(database);
  while (query.executeStep()) {
    try {
      (void)content.text(query.getColumn(0).getInt64());
    } catch (const std::exception& error) {
      wrong.emplace_back(error.what());
    }
  }
}

void look_at_runs(SQLite::Database& database, std::vector<std::string>& wrong) {
  SQLite::Statement query(database, "SELECT id FROM run");
  while (query.executeStep()) {
    try {
      refuse_altered_run(database, "the database", query.getColumn(0).getInt64());
    } catch (const std::exception& error) {
      wrong.emplace_back(error.what());
    }
  }
}

std::vector<std::string> wrong_in(SQLite::Database& database) {
  std::vector<std::string> wrong;
  SQLite::Transaction one_moment(database);
  SQLite::Statement integrity(database, "PRAGMA integrity_check");
  while (integrity.executeStep()) {
    const std::string line = integrity.getColumn(0).getString();
    if (line != "ok") wrong.push_back(line);
  }
  SQLite::Statement foreign(database, "PRAGMA foreign_key_check");
  while (foreign.executeStep()) {
    wrong.push_back("table " + foreign.getColumn(0).getString() + ", row " +
                    foreign.getColumn(1).getString() + ": belongs to no row of " +
                    foreign.getColumn(2).getString());
  }
  look_at_texts(database, wrong);
  look_at_runs(database, wrong);
  return wrong;
}

}  // namespace

std::vector<std::string> check_database(const std::string& path, const Store::OnNote& on_note) {
  try {
    SQLite::Database database = open_database_read_only(path, on_note);
    return guarded(path, [&] { return wrong_in(database); });
  } catch (const DamagedDatabase& damaged) {  // so much that SQLite cannot tell where
    return {damaged.what()};
  }
}

Sizes vacuum_database(const std::string& path, const Store::OnNote& on_note) {
  SQLite::Database database = open_database(path, false, on_note);
  return guarded(path, [&] {
    Sizes sizes;
    (void)database.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)").getInt();
    sizes.before_bytes = nsa::file_size(path);
    database.exec("VACUUM");
    (void)database.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)").getInt();
    sizes.after_bytes = nsa::file_size(path);
    return sizes;
  });
}

}  // namespace harness
