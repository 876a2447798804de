// The tables of the database, in one place. A change here is a new schema: raise kSchemaVersion and add a migration
// (migrations.h). The database is an index: it holds what reports, history and judgements read. What was recorded of a case
// stays in the run's folder.
//
// Doubles: SQLite turns NaN into NULL, and -0.0 into 0.0. `value` is what a person queries; where it cannot say what the
// double was, `bits` holds its IEEE 754 pattern, else NULL.
// A case's description is the same night after night, so it is kept once: `content`, packed (packed.h), by its hash. Most of it is
// the same in all cases too, so it is packed after the text of `base`, the first one that the file got, where that is smaller.
// `judgement.body` holds verdicts and findings, packed, as verdicts.jsonl has them.
// `cases.judgement_id` is the judgement that reports: the newest one that was made with all that had been recorded. Its outcome
// and first code stand beside it, for history.
// `run.hash` is over all rows of the run (run_hash.h); NULL: it has not ended.
#pragma once

#include <cstdint>

namespace harness {

inline constexpr std::int32_t kApplicationId = 0x4E534148;  // "NSAH"
inline constexpr int kSchemaVersion = 5;

// Of a new file: every table and index takes a page at least, and most rows fill half of one of this size.
inline constexpr const char* kPageSize = "PRAGMA page_size = 2048";

inline constexpr const char* kSchema = R"sql(
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  folder TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL DEFAULT 0,
  exit_code INTEGER NOT NULL DEFAULT -1,
  complete INTEGER NOT NULL DEFAULT 0,
  pruned_ms INTEGER NOT NULL DEFAULT 0,
  commit_id TEXT NOT NULL,
  dirty INTEGER NOT NULL,
  diff_hash TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  binary_hash TEXT NOT NULL,
  argv TEXT NOT NULL,
  hash TEXT
) STRICT;
CREATE INDEX run_by_time ON run (started_ms);

CREATE TABLE provenance (
  run_id INTEGER NOT NULL REFERENCES run (id),
  topic TEXT NOT NULL CHECK (topic IN ('machine', 'environment', 'command')),
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run_id, topic, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE content (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  base INTEGER REFERENCES content (id),
  body BLOB NOT NULL
) STRICT;

CREATE TABLE cases (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  position INTEGER NOT NULL,
  scenario TEXT NOT NULL,
  label TEXT NOT NULL,
  profile TEXT NOT NULL,
  case_id TEXT NOT NULL,
  history_id TEXT NOT NULL,
  content_id INTEGER NOT NULL REFERENCES content (id),
  skip_reason TEXT NOT NULL,
  folder TEXT NOT NULL,
  started_ms INTEGER NOT NULL DEFAULT 0,
  seconds REAL NOT NULL DEFAULT 0,
  judgement_id INTEGER REFERENCES judgement (id),
  outcome TEXT,
  code TEXT,
  UNIQUE (run_id, position)
) STRICT;
CREATE INDEX cases_by_history ON cases (history_id, run_id);
CREATE INDEX cases_by_scenario ON cases (scenario, run_id);
CREATE INDEX cases_by_judgement ON cases (judgement_id);

CREATE TABLE digest (
  case_row INTEGER PRIMARY KEY REFERENCES cases (id),
  body BLOB NOT NULL
) STRICT;

CREATE TABLE metric (
  case_row INTEGER NOT NULL REFERENCES cases (id),
  name TEXT NOT NULL,
  value REAL,
  bits INTEGER,
  PRIMARY KEY (case_row, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE judgement (
  id INTEGER PRIMARY KEY,
  case_row INTEGER NOT NULL REFERENCES cases (id),
  judged_ms INTEGER NOT NULL,
  whole INTEGER NOT NULL,
  source_hash TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT NOT NULL,
  events_hash TEXT,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX judgement_by_case ON judgement (case_row, id);

CREATE TABLE accepted (
  id INTEGER PRIMARY KEY,
  history_id TEXT NOT NULL,
  run_id INTEGER NOT NULL REFERENCES run (id),
  accepted_ms INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX accepted_by_history ON accepted (history_id, id);
CREATE INDEX accepted_by_run ON accepted (run_id);
)sql";

}  // namespace harness
