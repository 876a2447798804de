#include "harness/store/migrations.h"

#include <array>
#include <nlohmann/json.hpp>

#include "harness/store/schema.h"
#include "harness/store/sqlite.h"

namespace harness {
namespace {

using SQLite::Statement;

// ---- 1 -> 2: events leave the database, descriptions are kept once, the judgement that reports is chosen ----------------

constexpr std::array kTablesOf1 = {
    "run", "provenance", "cases", "event", "sample", "judgement", "verdict", "measured", "finding"};

// Under other names, so that the tables of today can be made beside them.
void set_aside(SQLite::Database& database) {
  Statement query(database,
                  "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL");
  std::vector<std::string> indices;
  while (query.executeStep()) indices.push_back(query.getColumn(0).getString());
  query.reset();
  for (const std::string& index : indices) database.exec("DROP INDEX " + index);
  for (const char* table : kTablesOf1) {
    database.exec(std::string("ALTER TABLE ") + table + " RENAME TO old_" + table);
  }
  database.exec("CREATE INDEX old_by_verdict ON old_finding (verdict_id)");
  database.exec("CREATE INDEX old_by_judgement ON old_finding (judgement_id)");
}

void drop_old(SQLite::Database& database) {
  for (auto at = kTablesOf1.rbegin(); at != kTablesOf1.rend(); ++at) {
    database.exec(std::string("DROP TABLE old_") + *at);
  }
}

void copy_runs(SQLite::Database& database) {
  database.exec(
      "INSERT INTO run (id, name, folder, started_ms, ended_ms, exit_code, complete, commit_id, "
      "dirty, diff_hash, source_hash, binary_hash, argv) SELECT id, name, folder, started_ms, "
      "ended_ms, exit_code, complete, commit_id, dirty, diff_hash, source_hash, binary_hash, argv "
      "FROM old_run");
  database.exec("INSERT INTO provenance SELECT * FROM old_provenance");
}

std::vector<CaseRecord> old_cases(SQLite::Database& database) {
  Statement query(database,
                  "SELECT id, run_id, position, scenario, label, case_id, case_json, skip_reason, "
                  "folder, started_ms, seconds FROM old_cases ORDER BY id");
  std::vector<CaseRecord> all;
  while (query.executeStep()) {
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
    all.push_back(std::move(record));
  }
  return all;
}

// From the events that the old file held. What a later program would refuse is left out: it was judged long ago.
Evidence old_evidence(SQLite::Database& database, std::int64_t case_row) {
  Evidence evidence;
  Statement query(
      database, "SELECT process, t_ms, kind, body FROM old_event WHERE case_row = ? ORDER BY seq");
  query.bind(1, case_row);
  while (query.executeStep()) {
    try {
      evidence.add(Event{query.getColumn(0).getInt(),
                         query.getColumn(1).getInt64(),
                         query.getColumn(2).getString(),
                         nlohmann::json::parse(query.getColumn(3).getString())});
    } catch (const nsa::Error&) {
    } catch (const nlohmann::json::exception&) {
    }
  }
  return evidence;
}

void copy_case(SQLite::Database& database, const CaseRecord& record) {
  const std::int64_t row = insert_case(database, record);
  Statement keep(database, "UPDATE cases SET id = ? WHERE id = ?");
  keep.bind(1, record.id);
  keep.bind(2, row);
  keep.exec();
  if (!record.skip_reason.empty() || record.started_ms == 0) return;
  write_end_of_case(
      database, record.id, record.seconds, digest_of(old_evidence(database, record.id)));
}

void copy_judgements(SQLite::Database& database) {
  // The first judgement of a case was made with everything. A later one that says of a file that it is gone was not.
  database.exec(
      "INSERT INTO judgement (id, case_row, judged_ms, whole, source_hash, outcome, reason) SELECT "
      "id, case_row, judged_ms, NOT EXISTS (SELECT 1 FROM old_judgement AS first WHERE "
      "first.case_row = old_judgement.case_row AND first.id < old_judgement.id) OR NOT EXISTS "
      "(SELECT 1 FROM old_verdict WHERE judgement_id = old_judgement.id AND reason LIKE '%is not "
      "there any more (pruned?)%'), '', outcome, reason FROM old_judgement");
  database.exec("INSERT INTO verdict SELECT * FROM old_verdict");
  database.exec(
      "INSERT INTO measured SELECT verdict_id, position, name, value, CASE WHEN value IS NULL OR "
      "(value = 0.0 AND bits <> 0) THEN bits END, limit_value, CASE WHEN limit_bits IS NULL THEN 0 "
      "WHEN limit_value IS NULL OR (limit_value = 0.0 AND limit_bits <> 0) THEN limit_bits END "
      "FROM old_measured");
  // The findings of a judgement were written a second time with their verdicts, in another order.
  database.exec(
      "INSERT INTO finding (judgement_id, position, verdict_position, place, code, role, status, "
      "statement, body) SELECT judgement_id, position, coalesce((SELECT verdict.position FROM "
      "old_finding AS own JOIN verdict ON verdict.id = own.verdict_id WHERE own.judgement_id = "
      "told.judgement_id AND own.body = told.body), -1), coalesce((SELECT own.position FROM "
      "old_finding AS own WHERE own.judgement_id = told.judgement_id AND own.verdict_id IS NOT "
      "NULL "
      "AND own.body = told.body), -1), code, role, status, statement, body FROM old_finding AS "
      "told "
      "WHERE verdict_id IS NULL");
  database.exec(
      "UPDATE cases SET (judgement_id, outcome) = (SELECT id, outcome FROM judgement WHERE "
      "case_row "
      "= cases.id ORDER BY whole DESC, judgement.id DESC LIMIT 1)");
  database.exec(
      "UPDATE cases SET code = coalesce((SELECT code FROM finding WHERE judgement_id = "
      "cases.judgement_id ORDER BY position LIMIT 1), '')");
}

void from_1_to_2(SQLite::Database& database) {
  set_aside(database);
  database.exec(kSchema);
  copy_runs(database);
  for (const CaseRecord& record : old_cases(database)) copy_case(database, record);
  copy_judgements(database);
  drop_old(database);
}

}  // namespace

void migrate(SQLite::Database& database, const std::string& path, const Store::OnNote& on_note) {
  database.exec("PRAGMA foreign_keys = OFF");
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  // Another process may have done it meanwhile.
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version >= kSchemaVersion) return;
  const std::string schema = "schema " + std::to_string(kSchemaVersion);
  const auto note = [&](const std::string& text) {
    if (on_note) on_note(path + ": " + text);
  };
  note("is brought to " + schema + ", which can take minutes where it is large");
  if (version < 2) from_1_to_2(database);
  if (version < 3) database.exec(kAcceptedTable);
  if (version < 4) database.exec(kCasesByJudgement);
  if (version >= 2) database.exec("ALTER TABLE judgement ADD COLUMN events_hash TEXT");
  database.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  transaction.commit();
  note("has " + schema + "; nsa-harness db vacuum gives the room back");
}

}  // namespace harness
