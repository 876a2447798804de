// Judgements: each of a case is kept, one of them reports. What a judgement says is one packed text, as verdicts.jsonl has it.
#include "harness/evidence/packed.h"
#include "harness/store/sqlite.h"
#include "harness/store/verdict_log.h"

namespace harness {
namespace {

using nlohmann::json;
using SQLite::Statement;

// The newest whole judgement reports; where there is none, the newest. `code` is that of its first finding.
void choose_judgement(SQLite::Database& database, std::int64_t case_row) {
  Statement update(
      database,
      "UPDATE cases SET (judgement_id, outcome) = (SELECT id, outcome FROM judgement WHERE "
      "case_row = cases.id ORDER BY whole DESC, id DESC LIMIT 1) WHERE id = ?");
  update.bind(1, case_row);
  if (update.exec() != 1) throw nsa::Error("no such case");
}

void note_code(SQLite::Database& database,
               std::int64_t case_row,
               std::int64_t judgement_id,
               const Judgement& judgement) {
  Statement update(database, "UPDATE cases SET code = ? WHERE id = ? AND judgement_id = ?");
  update.bind(1, judgement.findings.empty() ? std::string() : judgement.findings.front().code);
  update.bind(2, case_row);
  update.bind(3, judgement_id);
  update.exec();
}

}  // namespace

std::int64_t insert_judgement(SQLite::Database& database,
                              std::int64_t case_row,
                              const StoredJudgement& stored,
                              std::optional<std::int64_t> id) {
  Statement insert(database,
                   "INSERT INTO judgement (case_row, judged_ms, whole, source_hash, outcome, "
                   "reason, events_hash, body, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  json says = judgement_json(stored.judgement);
  for (const char* column : {"outcome", "reason"}) says.erase(column);  // beside it
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
  bind_blob(insert, 8, pack(says.dump(-1, ' ', false, json::error_handler_t::replace)));
  if (id) {
    insert.bind(9, *id);
  } else {
    insert.bind(9);  // NULL: the next number
  }
  insert.exec();
  const std::int64_t row = database.getLastInsertRowid();
  choose_judgement(database, case_row);
  note_code(database, case_row, row, stored.judgement);
  return row;
}

std::map<std::int64_t, Judgement> reporting_judgements(SQLite::Database& database,
                                                       std::int64_t run_id) {
  Statement query(database,
                  "SELECT cases.id, judgement.outcome, reason, body FROM cases JOIN judgement ON "
                  "judgement.id = judgement_id WHERE run_id = ?");
  query.bind(1, run_id);
  std::map<std::int64_t, Judgement> all;
  while (query.executeStep()) {
    json says = json::parse(unpack(read_blob(query, 3), kMaxUnpackedRow));
    says["outcome"] = query.getColumn(1).getString();
    says["reason"] = query.getColumn(2).getString();
    all.emplace(query.getColumn(0).getInt64(), judgement_from(says));
  }
  return all;
}

void SqliteStore::add_judgement(std::int64_t case_row, const StoredJudgement& judgement) {
  guarded(path_, [&] {
    change_run(run_of_case(case_row), [&] { insert_judgement(database_, case_row, judgement); });
  });
}

}  // namespace harness
