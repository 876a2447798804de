#include "harness/store/migrations.h"

#include <nlohmann/json.hpp>

#include "harness/store/run_hash.h"
#include "harness/store/schema.h"
#include "harness/store/sqlite.h"

namespace harness {
namespace {

using Names = std::vector<std::string>;
using SQLite::Statement;

// Under other names, so that the tables of today can be made beside them.
void set_aside(SQLite::Database& database, const Names& tables, const std::string& prefix) {
  Statement query(database,
                  "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL");
  Names indices;
  while (query.executeStep()) indices.push_back(query.getColumn(0).getString());
  query.reset();
  for (const std::string& index : indices) database.exec("DROP INDEX " + index);
  for (const std::string& table : tables) {
    database.exec("ALTER TABLE " + table + " RENAME TO " + prefix + table);
  }
}

void drop(SQLite::Database& database, const Names& tables, const std::string& prefix) {
  for (auto at = tables.rbegin(); at != tables.rend(); ++at) {
    database.exec("DROP TABLE " + prefix + *at);
  }
}

// ---- 4 -> 5: a judgement is one packed text, a run has a hash ------------------------------------------------------------

// What a judgement was made of until schema 4, as `four_...`.
constexpr const char* kJudgementsOf4 = R"sql(
CREATE TABLE four_judgement (id INTEGER PRIMARY KEY, case_row INTEGER, judged_ms INTEGER, whole INTEGER,
  source_hash TEXT, outcome TEXT, reason TEXT);
CREATE TABLE four_verdict (id INTEGER PRIMARY KEY, judgement_id INTEGER, position INTEGER, check_name TEXT,
  verdict TEXT, reason TEXT);
CREATE TABLE four_measured (verdict_id INTEGER, position INTEGER, name TEXT, value REAL, bits INTEGER,
  limit_value REAL, limit_bits INTEGER);
CREATE TABLE four_finding (id INTEGER PRIMARY KEY, judgement_id INTEGER, position INTEGER,
  verdict_position INTEGER, place INTEGER, code TEXT, role TEXT, status TEXT, statement TEXT, body TEXT);
)sql";

constexpr const char* kIndicesOf4 = R"sql(
CREATE INDEX four_verdicts ON four_verdict (judgement_id, position);
CREATE INDEX four_measures ON four_measured (verdict_id, position);
CREATE INDEX four_findings ON four_finding (judgement_id, position);
)sql";

Verdict verdict_named(std::string_view name) {
  for (const Verdict verdict : {Verdict::pass, Verdict::inconclusive, Verdict::fail}) {
    if (name == name_of(verdict)) return verdict;
  }
  throw nsa::Error("unknown verdict " + std::string(name));
}

std::vector<Measured> measured_of_4(Statement& query, std::int64_t verdict_id) {
  constexpr std::int64_t kNoLimit = 0;  // where a measured value had none
  std::vector<Measured> all;
  query.bind(1, verdict_id);
  while (query.executeStep()) {
    Measured measured{query.getColumn(0).getString(), read_real(query, 1, 2), std::nullopt};
    const bool unlimited = query.isColumnNull(3) && !query.isColumnNull(4) &&
                           query.getColumn(4).getInt64() == kNoLimit;
    if (!unlimited) measured.limit = Real(read_real(query, 3, 4));
    all.push_back(std::move(measured));
  }
  query.reset();
  return all;
}

class JudgementsOf4 {
 public:
  explicit JudgementsOf4(SQLite::Database& database)
      : verdicts_(database,
                  "SELECT id, check_name, verdict, reason FROM four_verdict WHERE judgement_id = ? "
                  "ORDER BY position"),
        measured_(database,
                  "SELECT name, value, bits, limit_value, limit_bits FROM four_measured WHERE "
                  "verdict_id = ? ORDER BY position"),
        findings_(database,
                  "SELECT verdict_position, place, body FROM four_finding WHERE judgement_id = ? "
                  "ORDER BY position") {}

  void read(std::int64_t id, Judgement& judgement) {
    verdicts_.bind(1, id);
    while (verdicts_.executeStep()) {
      CheckResult result;
      result.check = verdicts_.getColumn(1).getString();
      result.verdict = verdict_named(verdicts_.getColumn(2).getString());
      result.reason = verdicts_.getColumn(3).getString();
      result.measured = measured_of_4(measured_, verdicts_.getColumn(0).getInt64());
      judgement.verdicts.push_back(std::move(result));
    }
    verdicts_.reset();
    findings_.bind(1, id);
    while (findings_.executeStep()) add_finding(judgement);
    findings_.reset();
  }

 private:
  void add_finding(Judgement& judgement) {
    auto finding = nlohmann::json::parse(findings_.getColumn(2).getString()).get<Finding>();
    const int verdict = findings_.getColumn(0).getInt();
    if (verdict >= 0) {
      auto& own = judgement.verdicts.at(static_cast<std::size_t>(verdict)).findings;
      const auto place = static_cast<std::size_t>(findings_.getColumn(1).getInt());
      constexpr std::size_t kMostFindings = 100'000;  // of a verdict: a row says where it goes
      if (place >= kMostFindings) throw nsa::Error("a finding's place is out of range");
      if (own.size() <= place) own.resize(place + 1);
      own[place] = finding;
    }
    judgement.findings.push_back(std::move(finding));
  }

  Statement verdicts_;
  Statement measured_;
  Statement findings_;
};

void convert_judgements(SQLite::Database& database) {
  database.exec(kIndicesOf4);
  JudgementsOf4 of_4(database);
  Statement query(database,
                  "SELECT id, case_row, judged_ms, whole, source_hash, outcome, reason FROM "
                  "four_judgement ORDER BY id");
  while (query.executeStep()) {
    StoredJudgement stored;
    stored.judged_ms = query.getColumn(2).getInt64();
    stored.whole = query.getColumn(3).getInt() != 0;
    stored.source_hash = query.getColumn(4).getString();
    const std::string name = query.getColumn(5).getString();
    const std::optional<Outcome> outcome = outcome_from(name);
    if (!outcome) throw nsa::Error("unknown outcome " + name);
    stored.judgement.outcome = *outcome;
    stored.judgement.reason = query.getColumn(6).getString();
    of_4.read(query.getColumn(0).getInt64(), stored.judgement);
    insert_judgement(
        database, query.getColumn(1).getInt64(), stored, query.getColumn(0).getInt64());
  }
}

// From now on whoever changes a row is seen; what was changed before is not.
void seal_ended_runs(SQLite::Database& database) {
  Statement query(database, "SELECT id FROM run WHERE ended_ms > 0");
  while (query.executeStep()) seal_run(database, query.getColumn(0).getInt64());
}

void from_4_to_5(SQLite::Database& database, bool has_accepted) {
  Names tables = {"run", "provenance", "content", "cases", "digest", "metric"};
  if (has_accepted) tables.emplace_back("accepted");
  const Names judgements = {"judgement", "verdict", "measured", "finding"};
  set_aside(database, tables, "four_");
  set_aside(database, judgements, "four_");
  database.exec(kSchema);
  database.exec("INSERT INTO run SELECT *, NULL FROM four_run");
  database.exec("INSERT INTO content SELECT id, hash, NULL, body FROM four_content");
  for (const std::string& table : tables) {
    if (table == "run" || table == "content") continue;
    database.exec("INSERT INTO " + table + " SELECT * FROM four_" + table);
  }
  convert_judgements(database);
  drop(database, judgements, "four_");
  drop(database, tables, "four_");
}

// ---- 1 -> 5: events leave the database, descriptions are kept once, the judgement that reports is chosen -----------------

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
      "INSERT INTO four_judgement (id, case_row, judged_ms, whole, source_hash, outcome, reason) "
      "SELECT "
      "id, case_row, judged_ms, NOT EXISTS (SELECT 1 FROM old_judgement AS first WHERE "
      "first.case_row = old_judgement.case_row AND first.id < old_judgement.id) OR NOT EXISTS "
      "(SELECT 1 FROM old_verdict WHERE judgement_id = old_judgement.id AND reason LIKE '%is not "
      "there any more (pruned?)%'), '', outcome, reason FROM old_judgement");
  database.exec("INSERT INTO four_verdict SELECT * FROM old_verdict");
  database.exec(
      "INSERT INTO four_measured SELECT verdict_id, position, name, value, CASE WHEN value IS NULL "
      "OR "
      "(value = 0.0 AND bits <> 0) THEN bits END, limit_value, CASE WHEN limit_bits IS NULL THEN 0 "
      "WHEN limit_value IS NULL OR (limit_value = 0.0 AND limit_bits <> 0) THEN limit_bits END "
      "FROM old_measured");
  // The findings of a judgement were written a second time with their verdicts, in another order.
  database.exec(
      "INSERT INTO four_finding (judgement_id, position, verdict_position, place, code, role, "
      "status, "
      "statement, body) SELECT judgement_id, position, coalesce((SELECT four_verdict.position FROM "
      "old_finding AS own JOIN four_verdict ON four_verdict.id = own.verdict_id WHERE "
      "own.judgement_id = "
      "told.judgement_id AND own.body = told.body), -1), coalesce((SELECT own.position FROM "
      "old_finding AS own WHERE own.judgement_id = told.judgement_id AND own.verdict_id IS NOT "
      "NULL "
      "AND own.body = told.body), -1), code, role, status, statement, body FROM old_finding AS "
      "told "
      "WHERE verdict_id IS NULL");
}

void from_1_to_5(SQLite::Database& database) {
  const Names tables = {"run",
                        "provenance",
                        "cases",
                        "event",
                        "sample",
                        "judgement",
                        "verdict",
                        "measured",
                        "finding"};
  set_aside(database, tables, "old_");
  database.exec("CREATE INDEX old_by_verdict ON old_finding (verdict_id)");
  database.exec("CREATE INDEX old_by_judgement ON old_finding (judgement_id)");
  database.exec(kSchema);
  copy_runs(database);
  for (const CaseRecord& record : old_cases(database)) copy_case(database, record);
  database.exec(kJudgementsOf4);
  copy_judgements(database);
  convert_judgements(database);
  drop(database, {"judgement", "verdict", "measured", "finding"}, "four_");
  drop(database, tables, "old_");
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
  if (version < 2) {
    from_1_to_5(database);
  } else {
    from_4_to_5(database, version >= 3);
  }
  seal_ended_runs(database);
  database.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  transaction.commit();
  note("has " + schema + "; nsa-harness db vacuum gives the room back");
}

}  // namespace harness
