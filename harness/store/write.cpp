#include <bit>
#include <cmath>
#include <sys/stat.h>
#include <utility>

#include "harness/evidence/packed.h"
#include "harness/store/content.h"
#include "harness/store/identity.h"
#include "harness/store/run_hash.h"
#include "harness/store/sqlite.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

using SQLite::Statement;
using SQLite::Transaction;
using SQLite::TransactionBehavior;

void insert_provenance(SQLite::Database& database,
                       std::int64_t run_id,
                       const char* topic,
                       const Pairs& pairs) {
  Statement insert(
      database,
      "INSERT INTO provenance (run_id, topic, position, name, value) VALUES (?, ?, ?, ?, ?)");
  int position = 0;
  for (const auto& [name, value] : pairs) {
    insert.bind(1, run_id);
    insert.bind(2, topic);
    insert.bind(3, position++);
    insert.bind(4, name);
    insert.bind(5, value);
    insert.exec();
    insert.reset();
  }
}

void insert_metrics(SQLite::Database& database, std::int64_t case_row, const Digest& digest) {
  Statement insert(database,
                   "INSERT INTO metric (case_row, name, value, bits) VALUES (?, ?, ?, ?)");
  for (const auto& [name, value] : digest.metrics) {
    insert.bind(1, case_row);
    insert.bind(2, name);
    bind_real(insert, 3, 4, value);
    insert.exec();
    insert.reset();
  }
}

FileId file_at(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Exactly one row must have been there to be changed.
void update_one(Statement& update, const std::string& what) {
  if (update.exec() != 1) throw nsa::Error("no such " + what);
}

}  // namespace

void bind_blob(Statement& statement, int index, const std::string& bytes) {
  statement.bind(index, bytes.data(), static_cast<int>(bytes.size()));
}

void bind_real(Statement& statement, int value_index, int bits_index, double value) {
  const bool told_by_value = !std::isnan(value) && !(value == 0.0 && std::signbit(value));
  if (std::isnan(value)) {
    statement.bind(value_index);  // NULL
  } else {
    statement.bind(value_index, value);
  }
  if (told_by_value) {
    statement.bind(bits_index);
  } else {
    statement.bind(bits_index, std::bit_cast<std::int64_t>(value));
  }
}

std::int64_t insert_run(SQLite::Database& database,
                        const RunRecord& run,
                        std::optional<std::int64_t> id) {
  Statement insert(database,
                   "INSERT INTO run (name, folder, started_ms, ended_ms, exit_code, complete, "
                   "commit_id, dirty, diff_hash, source_hash, binary_hash, argv, id) VALUES (?, ?, "
                   "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, run.name);
  insert.bind(2, run.folder);
  insert.bind(3, run.started_ms);
  insert.bind(4, run.ended_ms);
  insert.bind(5, run.exit_code);
  insert.bind(6, run.complete ? 1 : 0);
  insert.bind(7, run.provenance.commit);
  insert.bind(8, run.provenance.dirty ? 1 : 0);
  insert.bind(9, run.provenance.diff_hash);
  insert.bind(10, run.provenance.source_hash);
  insert.bind(11, run.provenance.binary_hash);
  insert.bind(12, run.provenance.argv);
  if (id) {
    insert.bind(13, *id);
  } else {
    insert.bind(13);  // NULL: the next number
  }
  insert.exec();
  const std::int64_t row = database.getLastInsertRowid();
  insert_provenance(database, row, "machine", run.provenance.machine);
  insert_provenance(database, row, "environment", run.provenance.environment);
  insert_provenance(database, row, "command", run.provenance.command);
  return row;
}

std::int64_t insert_case(SQLite::Database& database, const CaseRecord& record) {
  const Identity identity = identity_of(record.case_json);
  Statement insert(database,
                   "INSERT INTO cases (run_id, position, scenario, label, profile, case_id, "
                   "history_id, content_id, skip_reason, folder, started_ms) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, record.run_id);
  insert.bind(2, record.position);
  insert.bind(3, record.scenario);
  insert.bind(4, record.label);
  insert.bind(5, identity.profile);
  insert.bind(6, record.case_id);
  insert.bind(7, identity.history_id);
  insert.bind(8, content_row(database, record.case_json));
  insert.bind(9, record.skip_reason);
  insert.bind(10, record.folder);
  insert.bind(11, record.started_ms);
  insert.exec();
  return database.getLastInsertRowid();
}

void write_end_of_case(SQLite::Database& database,
                       std::int64_t case_row,
                       double seconds,
                       const Digest& digest) {
  Statement update(database, "UPDATE cases SET seconds = ? WHERE id = ?");
  update.bind(1, seconds);
  update.bind(2, case_row);
  update_one(update, "case");
  Statement forget(database, "DELETE FROM metric WHERE case_row = ?");  // of an earlier look
  forget.bind(1, case_row);
  forget.exec();
  insert_metrics(database, case_row, digest);
  Statement insert(database, "INSERT OR REPLACE INTO digest (case_row, body) VALUES (?, ?)");
  insert.bind(1, case_row);
  bind_blob(insert, 2, pack(digest_text(digest)));
  insert.exec();
}

SqliteStore::SqliteStore(std::string path, SQLite::Database database)
    : path_(std::move(path)), database_(std::move(database)), opened_(file_at(path_)) {}

void SqliteStore::refuse_other_file(std::int64_t run_id) const {
  if (file_at(path_) == opened_) return;
  Statement query(database_, "SELECT folder FROM run WHERE id = ?");
  query.bind(1, run_id);
  const std::string folder = query.executeStep() ? query.getColumn(0).getString() : "FOLDER";
  throw nsa::NotRecorded(path_ + ": the database vanished or was replaced during the run; " +
                         "nsa-harness db rebuild " + folder + " --db " + path_ +
                         " makes its rows again");
}

std::int64_t SqliteStore::run_of_case(std::int64_t case_row) const {
  Statement query(database_, "SELECT run_id FROM cases WHERE id = ?");
  query.bind(1, case_row);
  if (!query.executeStep()) throw nsa::Error("no such case");
  return query.getColumn(0).getInt64();
}

void SqliteStore::check_run(std::int64_t run_id) const {
  if (checked_.contains(run_id)) return;
  refuse_altered_run(database_, path_, run_id);
  checked_.insert(run_id);
}

void SqliteStore::change_run(std::int64_t run_id, const std::function<void()>& change) {
  Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
  check_run(run_id);
  change();
  if (is_sealed(database_, run_id)) seal_run(database_, run_id);
  transaction.commit();
  refuse_other_file(run_id);
}

std::int64_t SqliteStore::begin_run(const RunRecord& run) {
  return guarded(path_, [&] {
    Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
    const std::int64_t id = insert_run(database_, run, std::nullopt);
    transaction.commit();
    return id;
  });
}

std::int64_t SqliteStore::plan_case(const CaseRecord& planned) {
  return guarded(path_, [&] {
    Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
    const std::int64_t id = insert_case(database_, planned);
    transaction.commit();
    return id;
  });
}

void SqliteStore::begin_case(std::int64_t case_row, std::int64_t started_ms) {
  guarded(path_, [&] {
    Statement update(database_, "UPDATE cases SET started_ms = ? WHERE id = ?");
    update.bind(1, started_ms);
    update.bind(2, case_row);
    update_one(update, "case");
  });
}

void SqliteStore::finish_case(std::int64_t case_row, double seconds, const Digest& digest) {
  guarded(path_, [&] {
    change_run(run_of_case(case_row),
               [&] { write_end_of_case(database_, case_row, seconds, digest); });
  });
}

void SqliteStore::finish_run(std::int64_t run_row,
                             int exit_code,
                             bool complete,
                             std::int64_t ended_ms) {
  guarded(path_, [&] {
    Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
    Statement update(database_,
                     "UPDATE run SET exit_code = ?, complete = ?, ended_ms = ? WHERE id = ?");
    update.bind(1, exit_code);
    update.bind(2, complete ? 1 : 0);
    update.bind(3, ended_ms);
    update.bind(4, run_row);
    update_one(update, "run");
    seal_run(database_, run_row);
    transaction.commit();
    refuse_other_file(run_row);
  });
}

std::int64_t SqliteStore::add_run(const RunRecord& run, std::span<const WholeCase> cases) {
  return guarded(path_, [&] {
    Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
    Statement taken(database_, "SELECT count(*) FROM run WHERE id = ?");
    taken.bind(1, run.id);
    taken.executeStep();
    const bool free = run.id > 0 && taken.getColumn(0).getInt() == 0;
    const std::int64_t id = insert_run(database_, run, free ? std::optional(run.id) : std::nullopt);
    for (const WholeCase& whole : cases) {
      CaseRecord record = whole.record;
      record.run_id = id;
      const std::int64_t row = insert_case(database_, record);
      if (record.digest.recorded) {
        write_end_of_case(database_, row, record.seconds, record.digest);
      }
      for (const StoredJudgement& judgement : whole.judgements) {
        insert_judgement(database_, row, judgement);
      }
    }
    seal_run(database_, id);
    transaction.commit();
    return id;
  });
}

void SqliteStore::mark_pruned(std::int64_t run_row, std::int64_t pruned_ms) {
  guarded(path_, [&] {
    change_run(run_row, [&] {
      Statement update(database_, "UPDATE run SET pruned_ms = ? WHERE id = ?");
      update.bind(1, pruned_ms);
      update.bind(2, run_row);
      update_one(update, "run");
    });
  });
}

}  // namespace harness
