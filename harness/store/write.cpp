#include <bit>
#include <cmath>
#include <utility>

#include "harness/store/sqlite.h"
#include "harness/store/store.h"

namespace harness {
namespace {

using SQLite::Statement;
using SQLite::Transaction;
using SQLite::TransactionBehavior;

// What a crash of the whole machine may lose at most, and what one transaction is worth (SPEC 9).
constexpr std::size_t kMaxPending = 512;
constexpr auto kMaxDelay = std::chrono::milliseconds(250);

std::string body_text(const nlohmann::json& body) {
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_provenance(SQLite::Database& database,
                      std::int64_t run_id,
                      const std::string& topic,
                      const std::vector<std::pair<std::string, std::string>>& pairs) {
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

void write_event(Statement& insert, std::int64_t case_row, std::int64_t seq, const Event& event) {
  insert.bind(1, case_row);
  insert.bind(2, seq);
  insert.bind(3, event.process);
  insert.bind(4, event.t_ms);
  insert.bind(5, event.kind);
  insert.bind(6, body_text(event.body));
  insert.exec();
  insert.reset();
}

void write_sample(Statement& insert, std::int64_t case_row, std::int64_t seq, const Event& event) {
  const auto sample = event.body.get<Sample>();
  insert.bind(1, case_row);
  insert.bind(2, seq);
  insert.bind(3, event.process);
  insert.bind(4, sample.metric);
  insert.bind(5, sample.step);
  bind_real(insert, 6, 7, sample.value);
  insert.exec();
  insert.reset();
}

// Exactly one row must have been there to be changed.
void update_one(Statement& update, const std::string& path, const std::string& what) {
  if (update.exec() != 1) throw nsa::Error(path + ": no such " + what);
}

}  // namespace

void bind_real(Statement& statement, int value_index, int bits_index, double value) {
  if (std::isnan(value)) {
    statement.bind(value_index);  // NULL
  } else {
    statement.bind(value_index, value);
  }
  statement.bind(bits_index, std::bit_cast<std::int64_t>(value));
}

double real_of_bits(std::int64_t bits) {
  return std::bit_cast<double>(bits);
}

std::unique_ptr<Store> Store::open(const std::string& path, bool create) {
  return std::make_unique<SqliteStore>(path, open_database(path, create));
}

std::unique_ptr<Store> Store::open_read_only(const std::string& path) {
  return std::make_unique<SqliteStore>(path, open_database_read_only(path));
}

SqliteStore::SqliteStore(std::string path, SQLite::Database database)
    : path_(std::move(path)),
      database_(std::move(database)),
      flushed_(std::chrono::steady_clock::now()) {}

SqliteStore::~SqliteStore() {
  try {
    flush();
  } catch (const nsa::Error&) {  // whoever wants to know calls flush() or finish_case()
  }
}

std::int64_t SqliteStore::begin_run(const RunRecord& run) {
  return guarded(path_, [&] {
    Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
    Statement insert(
        database_,
        "INSERT INTO run (name, folder, started_ms, commit_id, dirty, diff_hash, source_hash, "
        "binary_hash, argv) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    insert.bind(1, run.name);
    insert.bind(2, run.folder);
    insert.bind(3, run.started_ms);
    insert.bind(4, run.provenance.commit);
    insert.bind(5, run.provenance.dirty ? 1 : 0);
    insert.bind(6, run.provenance.diff_hash);
    insert.bind(7, run.provenance.source_hash);
    insert.bind(8, run.provenance.binary_hash);
    insert.bind(9, run.provenance.argv);
    insert.exec();
    const std::int64_t id = database_.getLastInsertRowid();
    write_provenance(database_, id, "machine", run.provenance.machine);
    write_provenance(database_, id, "environment", run.provenance.environment);
    transaction.commit();
    return id;
  });
}

std::int64_t SqliteStore::plan_case(const CaseRecord& planned) {
  return guarded(path_, [&] {
    Statement insert(database_,
                     "INSERT INTO cases (run_id, position, scenario, label, case_id, case_json, "
                     "skip_reason, folder) "
                     "VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    insert.bind(1, planned.run_id);
    insert.bind(2, planned.position);
    insert.bind(3, planned.scenario);
    insert.bind(4, planned.label);
    insert.bind(5, planned.case_id);
    insert.bind(6, planned.case_json);
    insert.bind(7, planned.skip_reason);
    insert.bind(8, planned.folder);
    insert.exec();
    return database_.getLastInsertRowid();
  });
}

void SqliteStore::begin_case(std::int64_t case_row, std::int64_t started_ms) {
  guarded(path_, [&] {
    Statement update(database_, "UPDATE cases SET started_ms = ? WHERE id = ?");
    update.bind(1, started_ms);
    update.bind(2, case_row);
    update_one(update, path_, "case");
  });
}

std::int64_t SqliteStore::next_seq(std::int64_t case_row) {
  auto at = next_seq_.find(case_row);
  if (at == next_seq_.end()) {
    Statement query(database_, "SELECT coalesce(max(seq) + 1, 0) FROM event WHERE case_row = ?");
    query.bind(1, case_row);
    query.executeStep();
    at = next_seq_.emplace(case_row, query.getColumn(0).getInt64()).first;
  }
  return at->second++;
}

void SqliteStore::add_event(std::int64_t case_row, const Event& event) {
  guarded(path_, [&] { pending_.push_back({case_row, next_seq(case_row), event}); });
  if (pending_.size() >= kMaxPending || std::chrono::steady_clock::now() - flushed_ >= kMaxDelay)
    flush();
}

void SqliteStore::flush() {
  flushed_ = std::chrono::steady_clock::now();
  if (pending_.empty()) return;
  guarded(path_, [&] { write_pending(); });
  pending_.clear();  // kept when writing failed: nothing is lost that may still be written
}

void SqliteStore::write_pending() {
  Transaction transaction(database_, TransactionBehavior::IMMEDIATE);
  Statement events(
      database_,
      "INSERT INTO event (case_row, seq, process, t_ms, kind, body) VALUES (?, ?, ?, ?, ?, ?)");
  Statement samples(database_,
                    "INSERT INTO sample (case_row, seq, process, metric, step, value, bits) VALUES "
                    "(?, ?, ?, ?, ?, ?, ?)");
  for (const Pending& pending : pending_) {
    write_event(events, pending.case_row, pending.seq, pending.event);
    if (pending.event.kind == Sample::kKind)
      write_sample(samples, pending.case_row, pending.seq, pending.event);
  }
  transaction.commit();
}

void SqliteStore::finish_case(std::int64_t case_row, double seconds) {
  flush();
  guarded(path_, [&] {
    Statement update(database_, "UPDATE cases SET seconds = ? WHERE id = ?");
    update.bind(1, seconds);
    update.bind(2, case_row);
    update_one(update, path_, "case");
  });
}

void SqliteStore::finish_run(std::int64_t run_row,
                             int exit_code,
                             bool complete,
                             std::int64_t ended_ms) {
  flush();
  guarded(path_, [&] {
    Statement update(database_,
                     "UPDATE run SET exit_code = ?, complete = ?, ended_ms = ? WHERE id = ?");
    update.bind(1, exit_code);
    update.bind(2, complete ? 1 : 0);
    update.bind(3, ended_ms);
    update.bind(4, run_row);
    update_one(update, path_, "run");
  });
}

}  // namespace harness
