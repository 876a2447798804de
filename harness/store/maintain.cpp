#include "harness/store/maintain.h"

#include "harness/store/sqlite.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

std::vector<std::string> wrong_in(SQLite::Database& database) {
  std::vector<std::string> wrong;
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
  return wrong;
}

}  // namespace

std::vector<std::string> check_database(const std::string& path, const Store::OnNote& on_note) {
  try {
    SQLite::Database database = open_database(path, false, on_note);
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
