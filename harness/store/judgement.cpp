// Judgements: each of a case is kept, one of them reports. All those of a run are read together: a query for each table.
#include <string_view>

#include "harness/store/schema.h"
#include "harness/store/sqlite.h"

namespace harness {
namespace {

using nlohmann::json;
using SQLite::Statement;

void insert_measured(SQLite::Database& database,
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
      insert.bind(7, kNoLimit);
    }
    insert.exec();
    insert.reset();
  }
}

void insert_verdict(SQLite::Database& database,
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
  insert_measured(database, database.getLastInsertRowid(), result.measured);
}

// Whose finding it is: the verdict's position and the place among its findings. A judgement holds the findings of its verdicts
// in another order, so each is written once. -1: of no verdict.
std::pair<int, int> origin_of(const Finding& finding,
                              const Judgement& judgement,
                              std::vector<std::vector<bool>>& taken) {
  const json wanted = finding;
  for (std::size_t i = 0; i < judgement.verdicts.size(); ++i) {
    const auto& findings = judgement.verdicts[i].findings;
    for (std::size_t j = 0; j < findings.size(); ++j) {
      if (taken[i][j] || json(findings[j]) != wanted) continue;
      taken[i][j] = true;
      return {static_cast<int>(i), static_cast<int>(j)};
    }
  }
  return {-1, -1};
}

void insert_findings(SQLite::Database& database,
                     std::int64_t judgement_id,
                     const Judgement& judgement) {
  Statement insert(database,
                   "INSERT INTO finding (judgement_id, position, verdict_position, place, code, "
                   "role, status, statement, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  std::vector<std::vector<bool>> taken;
  for (const CheckResult& result : judgement.verdicts) taken.emplace_back(result.findings.size());
  int position = 0;
  for (const Finding& finding : judgement.findings) {
    const auto [verdict, place] = origin_of(finding, judgement, taken);
    insert.bind(1, judgement_id);
    insert.bind(2, position++);
    insert.bind(3, verdict);
    insert.bind(4, place);
    insert.bind(5, finding.code);
    insert.bind(6, name_of(finding.role));
    insert.bind(7, name_of(finding.status));
    insert.bind(8, finding.statement);
    insert.bind(9, json(finding).dump(-1, ' ', false, json::error_handler_t::replace));
    insert.exec();
    insert.reset();
  }
}

// The newest whole judgement reports; where there is none, the newest.
void choose_judgement(SQLite::Database& database, std::int64_t case_row) {
  Statement update(
      database,
      "UPDATE cases SET (judgement_id, outcome) = (SELECT id, outcome FROM judgement WHERE "
      "case_row = cases.id ORDER BY whole DESC, id DESC LIMIT 1) WHERE id = ?");
  update.bind(1, case_row);
  if (update.exec() != 1) throw nsa::Error("no such case");
  Statement code(database,
                 "UPDATE cases SET code = coalesce((SELECT code FROM finding WHERE judgement_id = "
                 "cases.judgement_id ORDER BY position LIMIT 1), '') WHERE id = ?");
  code.bind(1, case_row);
  code.exec();
}

Verdict verdict_named(std::string_view name) {
  for (const Verdict verdict : {Verdict::pass, Verdict::inconclusive, Verdict::fail}) {
    if (name == name_of(verdict)) return verdict;
  }
  throw nsa::Error("unknown verdict " + std::string(name));
}

using Judgements = std::map<std::int64_t, Judgement>;  // by case row

void read_outcomes(SQLite::Database& database, std::int64_t run_id, Judgements& all) {
  Statement query(database,
                  "SELECT cases.id, judgement.outcome, judgement.reason FROM cases JOIN judgement "
                  "ON judgement.id = cases.judgement_id WHERE cases.run_id = ?");
  query.bind(1, run_id);
  while (query.executeStep()) {
    const std::string name = query.getColumn(1).getString();
    const std::optional<Outcome> outcome = outcome_from(name);
    if (!outcome) throw nsa::Error("unknown outcome " + name);
    Judgement& judgement = all[query.getColumn(0).getInt64()];
    judgement.outcome = *outcome;
    judgement.reason = query.getColumn(2).getString();
  }
}

void read_verdicts(SQLite::Database& database, std::int64_t run_id, Judgements& all) {
  Statement query(database,
                  "SELECT cases.id, check_name, verdict, verdict.reason FROM cases JOIN verdict ON "
                  "verdict.judgement_id = cases.judgement_id WHERE cases.run_id = ? ORDER BY "
                  "cases.position, verdict.position");
  query.bind(1, run_id);
  while (query.executeStep()) {
    CheckResult result;
    result.check = query.getColumn(1).getString();
    result.verdict = verdict_named(query.getColumn(2).getString());
    result.reason = query.getColumn(3).getString();
    all[query.getColumn(0).getInt64()].verdicts.push_back(std::move(result));
  }
}

void read_measured(SQLite::Database& database, std::int64_t run_id, Judgements& all) {
  Statement query(
      database,
      "SELECT cases.id, verdict.position, name, value, bits, limit_value, limit_bits FROM cases "
      "JOIN verdict ON verdict.judgement_id = cases.judgement_id JOIN measured ON "
      "measured.verdict_id = verdict.id WHERE cases.run_id = ? ORDER BY cases.position, "
      "verdict.position, measured.position");
  query.bind(1, run_id);
  while (query.executeStep()) {
    Measured measured{query.getColumn(2).getString(), read_real(query, 3, 4), std::nullopt};
    const bool unlimited = query.isColumnNull(5) && !query.isColumnNull(6) &&
                           query.getColumn(6).getInt64() == kNoLimit;
    if (!unlimited) measured.limit = Real(read_real(query, 5, 6));
    auto& verdicts = all[query.getColumn(0).getInt64()].verdicts;
    verdicts.at(static_cast<std::size_t>(query.getColumn(1).getInt()))
        .measured.push_back(std::move(measured));
  }
}

void read_findings(SQLite::Database& database, std::int64_t run_id, Judgements& all) {
  Statement query(database,
                  "SELECT cases.id, verdict_position, place, body FROM cases JOIN finding ON "
                  "finding.judgement_id = cases.judgement_id WHERE cases.run_id = ? ORDER BY "
                  "cases.position, finding.position");
  query.bind(1, run_id);
  while (query.executeStep()) {
    Judgement& judgement = all[query.getColumn(0).getInt64()];
    auto finding = json::parse(query.getColumn(3).getString()).get<Finding>();
    const int verdict = query.getColumn(1).getInt();
    if (verdict >= 0) {
      auto& own = judgement.verdicts.at(static_cast<std::size_t>(verdict)).findings;
      const auto place = static_cast<std::size_t>(query.getColumn(2).getInt());
      constexpr std::size_t kMostFindings = 100'000;  // of a verdict: a row says where it goes
      if (place >= kMostFindings) throw nsa::Error("a finding's place is out of range");
      if (own.size() <= place) own.resize(place + 1);
      own[place] = finding;
    }
    judgement.findings.push_back(std::move(finding));
  }
}

}  // namespace

void insert_judgement(SQLite::Database& database,
                      std::int64_t case_row,
                      const StoredJudgement& stored) {
  Statement insert(database,
                   "INSERT INTO judgement (case_row, judged_ms, whole, source_hash, outcome, "
                   "reason, events_hash) VALUES (?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, case_row);
  insert.bind(2, stored.judged_ms);
  insert.bind(3, stored.whole ? 1 : 0);
  insert.bind(4, stored.source_hash);
  insert.bind(5, name_of(stored.judgement.outcome));
  insert.bind(6, stored.judgement.reason);
  if (stored.events_hash) {
    insert.bind(7, *stored.events_hash);
  } else {
    insert.bind(7);  // NULL: an older version's
  }
  insert.exec();
  const std::int64_t id = database.getLastInsertRowid();
  int position = 0;
  for (const CheckResult& result : stored.judgement.verdicts) {
    insert_verdict(database, id, position++, result);
  }
  insert_findings(database, id, stored.judgement);
  choose_judgement(database, case_row);
}

std::map<std::int64_t, Judgement> reporting_judgements(SQLite::Database& database,
                                                       std::int64_t run_id) {
  Judgements all;
  read_outcomes(database, run_id, all);
  read_verdicts(database, run_id, all);
  read_measured(database, run_id, all);
  read_findings(database, run_id, all);
  return all;
}

void SqliteStore::add_judgement(std::int64_t case_row, const StoredJudgement& judgement) {
  guarded(path_, [&] {
    SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
    insert_judgement(database_, case_row, judgement);
    transaction.commit();
  });
}

}  // namespace harness
