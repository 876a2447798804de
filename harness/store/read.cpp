#include <bit>
#include <limits>
#include <utility>

#include "harness/evidence/packed.h"
#include "harness/store/content.h"
#include "harness/store/sqlite.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using SQLite::Statement;

constexpr const char* kRunColumns =
    "SELECT id, name, folder, started_ms, ended_ms, exit_code, complete, pruned_ms, commit_id, "
    "dirty, diff_hash, source_hash, binary_hash, argv FROM run ";

RunRecord read_run(Statement& query) {
  RunRecord run;
  run.id = query.getColumn(0).getInt64();
  run.name = query.getColumn(1).getString();
  run.folder = query.getColumn(2).getString();
  run.started_ms = query.getColumn(3).getInt64();
  run.ended_ms = query.getColumn(4).getInt64();
  run.exit_code = query.getColumn(5).getInt();
  run.complete = query.getColumn(6).getInt() != 0;
  run.pruned_ms = query.getColumn(7).getInt64();
  run.provenance.commit = query.getColumn(8).getString();
  run.provenance.dirty = query.getColumn(9).getInt() != 0;
  run.provenance.diff_hash = query.getColumn(10).getString();
  run.provenance.source_hash = query.getColumn(11).getString();
  run.provenance.binary_hash = query.getColumn(12).getString();
  run.provenance.argv = query.getColumn(13).getString();
  return run;
}

CaseRecord read_case(Statement& query, ContentReader& content) {
  CaseRecord record;
  record.id = query.getColumn(0).getInt64();
  record.run_id = query.getColumn(1).getInt64();
  record.position = query.getColumn(2).getInt();
  record.scenario = query.getColumn(3).getString();
  record.label = query.getColumn(4).getString();
  record.profile = query.getColumn(5).getString();
  record.case_id = query.getColumn(6).getString();
  record.history_id = query.getColumn(7).getString();
  record.case_json = content.text(query.getColumn(8).getInt64());
  record.skip_reason = query.getColumn(9).getString();
  record.folder = query.getColumn(10).getString();
  record.started_ms = query.getColumn(11).getInt64();
  record.seconds = query.getColumn(12).getDouble();
  return record;
}

using RowsById = std::map<std::int64_t, CaseRecord*>;  // by id

CaseRecord& row_of(const RowsById& rows, Statement& query) {
  return *rows.at(query.getColumn(0).getInt64());
}

void read_digests(SQLite::Database& database, std::int64_t run_id, const RowsById& rows) {
  Statement query(database,
                  "SELECT cases.id, body FROM cases JOIN digest ON case_row = cases.id WHERE "
                  "run_id = ?");
  query.bind(1, run_id);
  while (query.executeStep())
    row_of(rows, query).digest = digest_from(unpack(read_blob(query, 1), kMaxUnpackedRow));
}

void read_metrics(SQLite::Database& database, std::int64_t run_id, const RowsById& rows) {
  Statement query(database,
                  "SELECT cases.id, name, value, bits FROM cases JOIN metric ON case_row = "
                  "cases.id WHERE run_id = ? ORDER BY cases.position, name");
  query.bind(1, run_id);
  while (query.executeStep()) {
    row_of(rows, query)
        .digest.metrics.emplace_back(query.getColumn(1).getString(), read_real(query, 2, 3));
  }
}

void read_events_hashes(SQLite::Database& database, std::int64_t run_id, const RowsById& rows) {
  Statement query(database,
                  "SELECT cases.id, events_hash FROM cases JOIN judgement ON judgement.id = "
                  "judgement_id WHERE run_id = ? AND events_hash IS NOT NULL");
  query.bind(1, run_id);
  while (query.executeStep()) row_of(rows, query).events_hash = query.getColumn(1).getString();
}

void count_judgements(SQLite::Database& database, std::int64_t run_id, const RowsById& rows) {
  Statement query(database,
                  "SELECT cases.id, count(*), sum(whole = 0 AND judgement.id <> judgement_id) FROM "
                  "cases JOIN judgement ON case_row = cases.id WHERE run_id = ? GROUP BY cases.id");
  query.bind(1, run_id);
  while (query.executeStep()) {
    CaseRecord& record = row_of(rows, query);
    record.judgements = query.getColumn(1).getInt();
    record.judged_without = query.getColumn(2).getInt();
  }
}

Earlier read_earlier(Statement& query) {
  Earlier earlier;
  earlier.run_id = query.getColumn(0).getInt64();
  earlier.run = query.getColumn(1).getString();
  earlier.profile = query.getColumn(2).getString();
  const std::string name = query.getColumn(3).getString();
  const auto outcome = outcome_from(name);
  if (!outcome) throw nsa::Error("unknown outcome " + name);
  earlier.outcome = *outcome;
  earlier.code = query.getColumn(4).getString();
  earlier.started_ms = query.getColumn(5).getInt64();
  return earlier;
}

// Of the columns that read_earlier() takes, decided cases of runs that began before the run of `?3`, newest first, at most `?4`.
// Goes from run to run back in time (CROSS JOIN keeps that order) and asks each for the case: the first few that have it suffice.
std::string earlier_where(const std::string& condition) {
  return "SELECT run_id, run.name, profile, outcome, code, run.started_ms FROM run CROSS JOIN "
         "cases ON run_id = run.id WHERE " +
         condition +
         " AND (run.started_ms, run.id) < (coalesce((SELECT started_ms FROM run WHERE id = ?3), "
         "9223372036854775807), ?3) AND skip_reason = '' AND outcome NOT IN ('ERROR', "
         "'INCONCLUSIVE', 'SKIP') ORDER BY run.started_ms DESC, run.id DESC, cases.position DESC "
         "LIMIT ?4";
}

}  // namespace

std::string RunRecord::option(const std::string& key) const {
  for (const auto& [given, value] : provenance.command) {
    if (given == key) return value;
  }
  return "";
}

bool is_decided(Outcome outcome) {
  return outcome != Outcome::error && outcome != Outcome::inconclusive && outcome != Outcome::skip;
}

std::string read_blob(Statement& query, int index) {
  const auto column = query.getColumn(index);
  return {static_cast<const char*>(column.getBlob()), static_cast<std::size_t>(column.getBytes())};
}

double read_real(Statement& query, int value_index, int bits_index) {
  if (!query.isColumnNull(bits_index)) {
    return std::bit_cast<double>(query.getColumn(bits_index).getInt64());
  }
  return query.isColumnNull(value_index) ? std::numeric_limits<double>::quiet_NaN()
                                         : query.getColumn(value_index).getDouble();
}

std::vector<RunRecord> SqliteStore::runs_where(const std::string& condition,
                                               const std::vector<std::string>& values) const {
  return guarded(path_, [&] {
    Statement query(database_, kRunColumns + condition);
    int index = 0;
    for (const std::string& value : values) query.bind(++index, value);
    std::vector<RunRecord> all;
    while (query.executeStep()) all.push_back(read_run(query));
    for (RunRecord& run : all) read_provenance(run);
    return all;
  });
}

void SqliteStore::read_provenance(RunRecord& run) const {
  Statement query(
      database_,
      "SELECT topic, name, value FROM provenance WHERE run_id = ? ORDER BY topic, position");
  query.bind(1, run.id);
  while (query.executeStep()) {
    const std::string topic = query.getColumn(0).getString();
    Pairs& pairs = topic == "machine"   ? run.provenance.machine
                   : topic == "command" ? run.provenance.command
                                        : run.provenance.environment;
    pairs.emplace_back(query.getColumn(1).getString(), query.getColumn(2).getString());
  }
}

std::vector<RunRecord> SqliteStore::runs(std::int64_t since_ms, std::int64_t until_ms) const {
  return runs_where(
      "WHERE started_ms >= CAST(? AS INTEGER) AND started_ms < CAST(? AS INTEGER) ORDER BY "
      "started_ms, id",
      {std::to_string(since_ms), std::to_string(until_ms)});
}

std::optional<RunRecord> SqliteStore::last_run() const {
  const auto found = runs_where("ORDER BY id DESC LIMIT 1", {});
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<RunRecord> SqliteStore::run_named(const std::string& name_or_id) const {
  auto found = runs_where("WHERE name = ?", {name_or_id});
  if (found.empty() && nsa::parse_int(name_or_id)) {
    found = runs_where("WHERE id = CAST(? AS INTEGER)", {name_or_id});
  }
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<CaseRecord> SqliteStore::cases(std::int64_t run_id) const {
  return guarded(path_, [&] {
    SQLite::Transaction one_moment(database_);
    check_run(run_id);
    Statement query(
        database_,
        "SELECT id, run_id, position, scenario, label, profile, case_id, history_id, "
        "content_id, skip_reason, folder, started_ms, seconds FROM cases WHERE run_id = "
        "? ORDER BY position");
    query.bind(1, run_id);
    ContentReader content(database_);
    std::vector<CaseRecord> all;
    while (query.executeStep()) all.push_back(read_case(query, content));
    RowsById rows;
    for (CaseRecord& record : all) rows[record.id] = &record;
    read_digests(database_, run_id, rows);
    read_metrics(database_, run_id, rows);
    count_judgements(database_, run_id, rows);
    read_events_hashes(database_, run_id, rows);
    for (auto& [row, judgement] : reporting_judgements(database_, run_id)) {
      rows.at(row)->judgement = std::move(judgement);
    }
    return all;
  });
}

std::map<Outcome, int> SqliteStore::tally(std::int64_t run_id) const {
  return guarded(path_, [&] {
    Statement query(database_,
                    "SELECT CASE WHEN skip_reason <> '' THEN 'SKIP' ELSE coalesce(outcome, "
                    "'INCONCLUSIVE') END AS told, count(*) FROM cases WHERE run_id = ? GROUP BY "
                    "told");
    query.bind(1, run_id);
    std::map<Outcome, int> counts;
    while (query.executeStep()) {
      const auto outcome = outcome_from(query.getColumn(0).getString());
      if (outcome) counts[*outcome] += query.getColumn(1).getInt();
    }
    return counts;
  });
}

std::vector<Earlier> SqliteStore::history(const CaseRecord& now, int most) const {
  return guarded(path_, [&] {
    SQLite::Transaction one_moment(database_);
    Statement query(database_, earlier_where("history_id = ?1"));
    query.bind(1, now.history_id);
    query.bind(3, now.run_id);
    query.bind(4, most);
    std::vector<Earlier> all;
    while (query.executeStep()) all.push_back(read_earlier(query));
    for (const Earlier& earlier : all) check_run(earlier.run_id);
    return all;
  });
}

std::optional<Earlier> SqliteStore::namesake(const CaseRecord& now) const {
  return guarded(path_, [&]() -> std::optional<Earlier> {
    SQLite::Transaction one_moment(database_);
    Statement query(database_, earlier_where("scenario = ?1 AND label = ?2"));
    query.bind(1, now.scenario);
    query.bind(2, now.label);
    query.bind(3, now.run_id);
    query.bind(4, 1);
    if (!query.executeStep()) return std::nullopt;
    Earlier earlier = read_earlier(query);
    check_run(earlier.run_id);
    return earlier;
  });
}

}  // namespace harness
