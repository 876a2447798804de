#include <string_view>

#include "harness/store/sqlite.h"

namespace harness {
namespace {

using SQLite::Statement;

void write_measured(SQLite::Database& database,
                    std::int64_t verdict_id,
                    const std::vector<Measured>& measured) {
  Statement insert(
      database,
      "INSERT INTO measured (verdict_id, position, name, value, bits, limit_value, limit_bits) "
      "VALUES (?, ?, ?, ?, ?, ?, ?)");
  int position = 0;
  for (const Measured& value : measured) {
    insert.bind(1, verdict_id);
    insert.bind(2, position++);
    insert.bind(3, value.name);
    bind_real(insert, 4, 5, value.value);
    if (value.limit) {
      bind_real(insert, 6, 7, *value.limit);
    } else {
      insert.bind(6);
      insert.bind(7);
    }
    insert.exec();
    insert.reset();
  }
}

// `verdict_id` 0: the judgement's own list, with roles and in its order.
void write_findings(SQLite::Database& database,
                    std::int64_t judgement_id,
                    std::int64_t verdict_id,
                    const std::vector<Finding>& findings) {
  Statement insert(database,
                   "INSERT INTO finding (judgement_id, verdict_id, position, code, role, status, "
                   "statement, body) "
                   "VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  int position = 0;
  for (const Finding& finding : findings) {
    insert.bind(1, judgement_id);
    if (verdict_id == 0) {
      insert.bind(2);
    } else {
      insert.bind(2, verdict_id);
    }
    insert.bind(3, position++);
    insert.bind(4, finding.code);
    insert.bind(5, name_of(finding.role));
    insert.bind(6, name_of(finding.status));
    insert.bind(7, finding.statement);
    insert.bind(
        8, nlohmann::json(finding).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    insert.exec();
    insert.reset();
  }
}

void write_verdict(SQLite::Database& database,
                   std::int64_t judgement_id,
                   int position,
                   const CheckResult& result) {
  Statement insert(database,
                   "INSERT INTO verdict (judgement_id, position, check_name, verdict, reason) "
                   "VALUES (?, ?, ?, ?, ?)");
  insert.bind(1, judgement_id);
  insert.bind(2, position);
  insert.bind(3, result.check);
  insert.bind(4, name_of(result.verdict));
  insert.bind(5, result.reason);
  insert.exec();
  const std::int64_t verdict_id = database.getLastInsertRowid();
  write_measured(database, verdict_id, result.measured);
  write_findings(database, judgement_id, verdict_id, result.findings);
}

std::vector<Measured> read_measured(SQLite::Database& database, std::int64_t verdict_id) {
  Statement query(
      database,
      "SELECT name, bits, limit_bits FROM measured WHERE verdict_id = ? ORDER BY position");
  query.bind(1, verdict_id);
  std::vector<Measured> all;
  while (query.executeStep()) {
    Measured measured{
        query.getColumn(0).getString(), real_of_bits(query.getColumn(1).getInt64()), std::nullopt};
    if (!query.isColumnNull(2)) measured.limit = Real(real_of_bits(query.getColumn(2).getInt64()));
    all.push_back(std::move(measured));
  }
  return all;
}

std::vector<Finding> read_findings(Statement query) {
  std::vector<Finding> all;
  while (query.executeStep()) {
    all.push_back(nlohmann::json::parse(query.getColumn(0).getString()).get<Finding>());
  }
  return all;
}

std::vector<Finding> findings_of_verdict(SQLite::Database& database, std::int64_t verdict_id) {
  Statement query(database, "SELECT body FROM finding WHERE verdict_id = ? ORDER BY position");
  query.bind(1, verdict_id);
  return read_findings(std::move(query));
}

std::vector<Finding> findings_of_judgement(SQLite::Database& database, std::int64_t judgement_id) {
  Statement query(
      database,
      "SELECT body FROM finding WHERE judgement_id = ? AND verdict_id IS NULL ORDER BY position");
  query.bind(1, judgement_id);
  return read_findings(std::move(query));
}

Verdict verdict_named(std::string_view name) {
  for (const Verdict verdict : {Verdict::pass, Verdict::inconclusive, Verdict::fail}) {
    if (name == name_of(verdict)) return verdict;
  }
  throw nsa::Error("unknown verdict " + std::string(name));
}

std::vector<CheckResult> read_verdicts(SQLite::Database& database, std::int64_t judgement_id) {
  Statement query(database,
                  "SELECT id, check_name, verdict, reason FROM verdict WHERE judgement_id = ? "
                  "ORDER BY position");
  query.bind(1, judgement_id);
  std::vector<CheckResult> all;
  while (query.executeStep()) {
    const std::int64_t id = query.getColumn(0).getInt64();
    CheckResult result;
    result.check = query.getColumn(1).getString();
    result.verdict = verdict_named(query.getColumn(2).getString());
    result.reason = query.getColumn(3).getString();
    result.measured = read_measured(database, id);
    result.findings = findings_of_verdict(database, id);
    all.push_back(std::move(result));
  }
  return all;
}

}  // namespace

void SqliteStore::add_judgement(std::int64_t case_row,
                                const Judgement& judgement,
                                std::int64_t judged_ms) {
  flush();
  guarded(path_, [&] {
    SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
    Statement insert(
        database_,
        "INSERT INTO judgement (case_row, judged_ms, outcome, reason) VALUES (?, ?, ?, ?)");
    insert.bind(1, case_row);
    insert.bind(2, judged_ms);
    insert.bind(3, name_of(judgement.outcome));
    insert.bind(4, judgement.reason);
    insert.exec();
    const std::int64_t id = database_.getLastInsertRowid();
    int position = 0;
    for (const CheckResult& result : judgement.verdicts)
      write_verdict(database_, id, position++, result);
    write_findings(database_, id, 0, judgement.findings);
    transaction.commit();
  });
}

std::optional<Judgement> SqliteStore::newest_judgement(std::int64_t case_row) const {
  Statement query(
      database_,
      "SELECT id, outcome, reason FROM judgement WHERE case_row = ? ORDER BY id DESC LIMIT 1");
  query.bind(1, case_row);
  if (!query.executeStep()) return std::nullopt;
  const std::int64_t id = query.getColumn(0).getInt64();
  const std::string name = query.getColumn(1).getString();
  const std::optional<Outcome> outcome = outcome_from(name);
  if (!outcome) throw nsa::Error(path_ + ": unknown outcome " + name);
  return Judgement{*outcome,
                   query.getColumn(2).getString(),
                   read_verdicts(database_, id),
                   findings_of_judgement(database_, id)};
}

}  // namespace harness
