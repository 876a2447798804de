#include "harness/store/merge.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>

#include "harness/store/content.h"
#include "harness/store/run_hash.h"
#include "harness/store/sqlite.h"
#include "nsa/base/file.h"
#include "nsa/base/new_file.h"

namespace harness {
namespace {

// Rows get ids behind those that are there: what they had, plus the largest one.
constexpr const char* kOffsets = R"sql(
CREATE TEMP TABLE shift AS SELECT
  (SELECT coalesce(max(id), 0) FROM main.run) AS by_run,
  (SELECT coalesce(max(id), 0) FROM main.cases) AS by_cases,
  (SELECT coalesce(max(id), 0) FROM main.judgement) AS by_judgement;
CREATE TEMP TABLE added (id INTEGER PRIMARY KEY);
)sql";

constexpr const char* kChosen = R"sql(
CREATE TEMP TABLE added_case AS SELECT id FROM other.cases WHERE run_id IN (SELECT id FROM added);
CREATE TEMP TABLE added_judgement AS
  SELECT id FROM other.judgement WHERE case_row IN (SELECT id FROM added_case);
)sql";

constexpr const char* kForget = R"sql(
DROP TABLE temp.added_judgement;
DROP TABLE temp.added_case;
DROP TABLE temp.added;
DROP TABLE temp.shift;
)sql";

// Whoever adds a table or a column to the schema adds it here: a test compares what was read before with what is read after.
constexpr const char* kCopy = R"sql(
INSERT INTO main.run SELECT r.id + s.by_run, name, folder, started_ms, ended_ms, exit_code, complete,
  pruned_ms, commit_id, dirty,
  diff_hash, source_hash, binary_hash, argv, hash FROM other.run AS r, shift AS s WHERE r.id IN (SELECT
  id FROM added);
INSERT INTO main.provenance SELECT run_id + s.by_run, topic, position, name, value FROM
  other.provenance, shift AS s
  WHERE run_id IN (SELECT id FROM added);
INSERT INTO main.cases SELECT c.id + s.by_cases, run_id + s.by_run, position, scenario, label, profile,
  case_id, history_id,
  (SELECT mine.id FROM main.content AS mine, other.content AS theirs WHERE theirs.id =
  c.content_id AND mine.hash = theirs.hash),
  skip_reason, folder, started_ms, seconds, judgement_id + s.by_judgement, outcome, code
  FROM other.cases AS c, shift AS s WHERE c.id IN (SELECT id FROM added_case);
INSERT INTO main.digest SELECT case_row + s.by_cases, body FROM other.digest, shift AS s
  WHERE case_row IN (SELECT id FROM added_case);
INSERT INTO main.metric SELECT case_row + s.by_cases, name, value, bits FROM other.metric, shift AS s
  WHERE case_row IN (SELECT id FROM added_case);
INSERT INTO main.judgement SELECT j.id + s.by_judgement, case_row + s.by_cases, judged_ms, whole,
  source_hash, outcome, reason, events_hash, body
  FROM other.judgement AS j, shift AS s WHERE j.id IN (SELECT id FROM added_judgement);
INSERT INTO main.accepted (history_id, run_id, accepted_ms, reason) SELECT history_id, run_id +
  s.by_run, accepted_ms, reason
  FROM other.accepted, shift AS s WHERE run_id IN (SELECT id FROM added) ORDER BY id;
)sql";

// Of all runs, or of those that are named: which are not there yet, in their order.
std::vector<std::string> missing_runs(SQLite::Database& database,
                                      std::span<const std::string> names,
                                      Merged& merged) {
  std::vector<std::string> missing;
  SQLite::Statement query(
      database,
      "SELECT name, name IN (SELECT name FROM main.run) FROM other.run ORDER BY "
      "id");
  while (query.executeStep()) {
    const std::string name = query.getColumn(0).getString();
    const bool wanted = names.empty() || std::find(names.begin(), names.end(), name) != names.end();
    if (!wanted) continue;
    if (query.getColumn(1).getInt() != 0) {
      ++merged.known;
    } else {
      missing.push_back(name);
    }
  }
  return missing;
}

// Texts are packed anew, after what the texts of this file are packed after. What is in both is there already.
void copy_contents(SQLite::Database& database) {
  SQLite::Statement query(database,
                          "SELECT DISTINCT content_id FROM other.cases WHERE id IN (SELECT id FROM "
                          "added_case)");
  ContentReader theirs(database, "other");
  while (query.executeStep()) {
    (void)content_row(database, theirs.text(query.getColumn(0).getInt64()));
  }
}

// The rows are those that the other file's writer hashed, and they arrived as they were.
void refuse_altered_copy(SQLite::Database& database, const std::string& name) {
  SQLite::Statement query(database, "SELECT id FROM main.run WHERE name = ?");
  query.bind(1, name);
  if (query.executeStep()) refuse_altered_run(database, "other", query.getColumn(0).getInt64());
}

// One transaction a run: whoever else writes waits for one run only. False where another process has added it meanwhile.
bool copy_run(SQLite::Database& database, const std::string& name) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  database.exec("PRAGMA defer_foreign_keys = ON");
  database.exec(kOffsets);
  SQLite::Statement choose(database,
                           "INSERT INTO added SELECT id FROM other.run WHERE name = ? AND name NOT "
                           "IN (SELECT name FROM main.run)");
  choose.bind(1, name);
  const bool added = choose.exec() == 1;
  choose.reset();
  database.exec(kChosen);
  copy_contents(database);
  database.exec(kCopy);
  if (added) refuse_altered_copy(database, name);
  database.exec(kForget);
  transaction.commit();
  return added;
}

void copy_runs(const std::string& into,
               const std::string& from,
               std::span<const std::string> names,
               const Store::OnNote& on_note,
               Merged& merged) {
  SQLite::Database database = open_database(into, true, on_note);
  std::size_t wanted = 0;
  try {
    database.exec("PRAGMA temp_store = MEMORY");
    SQLite::Statement attach(database, "ATTACH ? AS other");
    attach.bind(1, from);
    attach.exec();
    const std::vector<std::string> missing = missing_runs(database, names, merged);
    wanted = missing.size();
    for (const std::string& name : missing) {
      ++(copy_run(database, name) ? merged.added : merged.known);
    }
  } catch (const std::exception&) {
    const std::string got = "after " + std::to_string(merged.added) + " of " +
                            std::to_string(wanted) + " runs were added to " + into;
    throw_naming(from + ": " + got);
  }
}

void refuse_itself(const std::string& into, const std::string& from) {
  std::error_code error;
  if (std::filesystem::equivalent(into, from, error)) {
    throw nsa::Error(from + ": is the database itself, wanted another one");
  }
}

// A whole file that is ours. Of a damaged one nothing is taken: what could still be read may not be what was written.
void refuse_damaged(const std::string& from, const Store::OnNote& on_note) {
  SQLite::Database database = open_database_read_only(from, on_note);
  const std::string found =
      guarded(from, [&] { return database.execAndGet("PRAGMA quick_check(1)").getString(); });
  if (found != "ok") throw DamagedDatabase(from + ": damaged: " + found);
}

void remove_database(const std::string& path) {
  std::error_code ignored;
  for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path + part, ignored);
}

}  // namespace

Merged merge_database(const std::string& into,
                      const std::string& from,
                      const Store::OnNote& on_note) {
  refuse_itself(into, from);
  refuse_damaged(from, on_note);
  const bool is_new = !std::filesystem::exists(into);
  Merged merged;
  try {
    copy_runs(into, from, {}, on_note, merged);
  } catch (const nsa::Error&) {
    if (is_new && merged.added == 0) remove_database(into);
    throw;
  }
  return merged;
}

void export_runs(const std::string& from,
                 const std::string& to,
                 std::span<const std::string> names,
                 const Store::OnNote& on_note) {
  if (names.empty()) throw nsa::Error("found no run, wanted one or more");
  if (std::filesystem::exists(std::filesystem::symlink_status(to)))
    throw nsa::Error(to + ": is there already, wanted a new file");
  (void)open_database_read_only(from, on_note);  // refuses what is not ours
  // SQLite opens by name: the name is drawn, and the file there before it looks.
  const std::string part = nsa::drawn_name(to);
  nsa::write_durably(part, "");
  try {
    Merged merged;
    copy_runs(part, from, names, on_note, merged);
    if (merged.added != static_cast<int>(names.size())) {
      throw nsa::Error(from + ": found " + std::to_string(merged.added) + " of " +
                       std::to_string(names.size()) + " runs");
    }
    if (renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
      nsa::throw_write_error("write", to, errno);
    }
  } catch (...) {
    remove_database(part);
    throw;
  }
}

}  // namespace harness
