#include <map>

#include "harness/store/sqlite.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using SQLite::Statement;

constexpr const char* kRunColumns =
    "SELECT id, name, folder, started_ms, ended_ms, exit_code, complete, commit_id, dirty, "
    "diff_hash, source_hash, "
    "binary_hash, argv FROM run ";

constexpr const char* kCaseColumns =
    "SELECT cases.id, run_id, position, scenario, label, case_id, case_json, skip_reason, folder, "
    "started_ms, seconds "
    "FROM cases ";

RunRecord read_run(Statement& query) {
  RunRecord run;
  run.id = query.getColumn(0).getInt64();
  run.name = query.getColumn(1).getString();
  run.folder = query.getColumn(2).getString();
  run.started_ms = query.getColumn(3).getInt64();
  run.ended_ms = query.getColumn(4).getInt64();
  run.exit_code = query.getColumn(5).getInt();
  run.complete = query.getColumn(6).getInt() != 0;
  run.provenance.commit = query.getColumn(7).getString();
  run.provenance.dirty = query.getColumn(8).getInt() != 0;
  run.provenance.diff_hash = query.getColumn(9).getString();
  run.provenance.source_hash = query.getColumn(10).getString();
  run.provenance.binary_hash = query.getColumn(11).getString();
  run.provenance.argv = query.getColumn(12).getString();
  return run;
}

CaseRecord read_case(Statement& query) {
  CaseRecord record;
  record.id = query.getColumn(0).getInt64();
  record.run_id = query.getColumn(1).getInt64();
  record.position = query.getColumn(2).getInt();
  record.scenario = query.getColumn(3).getString();
  record.label = query.getColumn(4).getString();
  record.case_id = query.getColumn(5).getString();
  record.case_json = query.getColumn(6).getString();
  record.skip_reason = query.getColumn(7).getString();
  record.folder = query.getColumn(8).getString();
  record.started_ms = query.getColumn(9).getInt64();
  record.seconds = query.getColumn(10).getDouble();
  return record;
}

std::vector<std::pair<std::string, double>> read_metrics(SQLite::Database& database,
                                                         std::int64_t case_row) {
  Statement query(
      database, "SELECT metric, bits FROM sample WHERE case_row = ? AND process = 0 ORDER BY seq");
  query.bind(1, case_row);
  std::map<std::string, double> last;
  while (query.executeStep()) {
    last[query.getColumn(0).getString()] = real_of_bits(query.getColumn(1).getInt64());
  }
  return {last.begin(), last.end()};
}

}  // namespace

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
    auto& pairs = query.getColumn(0).getString() == "machine" ? run.provenance.machine
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
  const auto found = runs_where("ORDER BY started_ms DESC, id DESC LIMIT 1", {});
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<RunRecord> SqliteStore::run_named(const std::string& name_or_id) const {
  auto found = runs_where("WHERE name = ?", {name_or_id});
  if (found.empty() && nsa::parse_int(name_or_id)) {
    found = runs_where("WHERE id = CAST(? AS INTEGER)", {name_or_id});
  }
  return found.empty() ? std::nullopt : std::optional(found.front());
}

void SqliteStore::fill_case(CaseRecord& record) const {
  record.judgement = newest_judgement(record.id);
  Statement query(database_, "SELECT count(*) FROM judgement WHERE case_row = ?");
  query.bind(1, record.id);
  query.executeStep();
  record.judgements = query.getColumn(0).getInt();
  record.metrics = read_metrics(database_, record.id);
}

std::vector<CaseRecord> SqliteStore::cases(std::int64_t run_id) const {
  return guarded(path_, [&] {
    Statement query(database_, std::string(kCaseColumns) + "WHERE run_id = ? ORDER BY position");
    query.bind(1, run_id);
    std::vector<CaseRecord> all;
    while (query.executeStep()) all.push_back(read_case(query));
    for (CaseRecord& record : all) fill_case(record);
    return all;
  });
}

std::optional<CaseRecord> SqliteStore::previous(const CaseRecord& now,
                                                std::int64_t before_run) const {
  return guarded(path_, [&]() -> std::optional<CaseRecord> {
    Statement query(database_,
                    std::string(kCaseColumns) +
                        "WHERE scenario = ? AND label = ? AND run_id < ? AND EXISTS (SELECT 1 FROM "
                        "judgement WHERE "
                        "case_row = cases.id) ORDER BY run_id DESC, position DESC LIMIT 1");
    query.bind(1, now.scenario);
    query.bind(2, now.label);
    query.bind(3, before_run);
    if (!query.executeStep()) return std::nullopt;
    CaseRecord record = read_case(query);
    fill_case(record);
    return record;
  });
}

Evidence SqliteStore::evidence(const CaseRecord& record, const RunRecord& run) const {
  Evidence evidence;
  evidence.the_case = case_from_json(record.case_json, path_);
  evidence.folder = run.folder + "/" + record.folder;
  return guarded(path_, [&] {
    Statement query(
        database_,
        "SELECT process, t_ms, kind, body, seq FROM event WHERE case_row = ? ORDER BY seq");
    query.bind(1, record.id);
    while (query.executeStep()) {
      Event event{query.getColumn(0).getInt(),
                  query.getColumn(1).getInt64(),
                  query.getColumn(2).getString(),
                  {}};
      try {
        event.body = nlohmann::json::parse(query.getColumn(3).getString());
        evidence.add(event);
      } catch (const std::exception& error) {
        throw nsa::Error(path_ + ": " + record.label + ", event " + query.getColumn(4).getString() +
                         ": " + error.what());
      }
    }
    return std::move(evidence);
  });
}

}  // namespace harness
