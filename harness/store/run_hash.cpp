#include "harness/store/run_hash.h"

#include <array>
#include <bit>
#include <cstring>

#include "harness/store/sqlite.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

using SQLite::Statement;

// Whoever adds a table or a column to the schema adds it here: a test changes every column and wants it seen.
constexpr std::array kRowsOfRun = {
    "SELECT name, folder, started_ms, ended_ms, exit_code, complete, pruned_ms, commit_id, dirty, "
    "diff_hash, source_hash, binary_hash, argv FROM run WHERE id = ?",
    "SELECT topic, position, name, value FROM provenance WHERE run_id = ? ORDER BY topic, position",
    "SELECT position, scenario, label, profile, case_id, history_id, content.hash, skip_reason, "
    "folder, started_ms, seconds, outcome, code, (SELECT count(*) FROM judgement WHERE case_row = "
    "cases.id AND judgement.id <= judgement_id) FROM cases LEFT JOIN content ON content.id = "
    "content_id WHERE run_id = ? ORDER BY position",
    "SELECT position, body FROM cases JOIN digest ON case_row = cases.id WHERE run_id = ? ORDER BY "
    "position",
    "SELECT position, name, value, bits FROM cases JOIN metric ON case_row = cases.id WHERE run_id "
    "= ? ORDER BY position, name",
    "SELECT position, judged_ms, whole, source_hash, judgement.outcome, reason, events_hash, body "
    "FROM cases JOIN judgement ON case_row = cases.id WHERE run_id = ? ORDER BY position, "
    "judgement.id",
    "SELECT history_id, accepted_ms, reason FROM accepted WHERE run_id = ? ORDER BY id"};

void feed_number(nsa::Hasher& hasher, char kind, std::uint64_t bits) {
  std::array<char, 9> bytes{kind};
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(bits & 0xffU);
    bits >>= 8U;
  }
  hasher.update({bytes.data(), bytes.size()});
}

// With its type and length before it, so that no two rows look alike.
void feed_column(nsa::Hasher& hasher, const SQLite::Column& column) {
  if (column.isNull()) {
    hasher.update("n");
  } else if (column.isInteger()) {
    feed_number(hasher, 'i', static_cast<std::uint64_t>(column.getInt64()));
  } else if (column.isFloat()) {
    feed_number(hasher, 'f', std::bit_cast<std::uint64_t>(column.getDouble()));
  } else {
    const auto size = static_cast<std::size_t>(column.getBytes());
    feed_number(hasher, column.isBlob() ? 'b' : 't', size);
    hasher.update({static_cast<const char*>(column.getBlob()), size});
  }
}

std::string hash_of_rows(SQLite::Database& database, std::int64_t run_id) {
  nsa::Hasher hasher;
  for (const char* rows : kRowsOfRun) {
    Statement query(database, rows);
    query.bind(1, run_id);
    while (query.executeStep()) {
      hasher.update("row");
      for (int i = 0; i < query.getColumnCount(); ++i) feed_column(hasher, query.getColumn(i));
    }
    hasher.update("end");
  }
  return hasher.hex();
}

}  // namespace

void seal_run(SQLite::Database& database, std::int64_t run_id) {
  const std::string hash = hash_of_rows(database, run_id);
  Statement update(database, "UPDATE run SET hash = ? WHERE id = ?");
  update.bind(1, hash);
  update.bind(2, run_id);
  update.exec();
}

bool is_sealed(SQLite::Database& database, std::int64_t run_id) {
  Statement query(database, "SELECT hash IS NOT NULL FROM run WHERE id = ?");
  query.bind(1, run_id);
  return query.executeStep() && query.getColumn(0).getInt() != 0;
}

void refuse_altered_run(SQLite::Database& database, const std::string& path, std::int64_t run_id) {
  Statement query(database,
                  "SELECT name, folder, ended_ms, coalesce(hash, '') FROM run WHERE id = ?");
  query.bind(1, run_id);
  if (!query.executeStep()) return;
  const std::string noted = query.getColumn(3).getString();
  if (noted.empty() && query.getColumn(2).getInt64() == 0) return;
  if (noted == hash_of_rows(database, run_id)) return;
  throw DamagedDatabase(path + ": run " + query.getColumn(0).getString() +
                        ": its rows are not what was written; its folder has the record: " +
                        query.getColumn(1).getString() + " (nsa-harness db rebuild)");
}

}  // namespace harness
