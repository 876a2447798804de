// The tables as they were at schema 2, and what schemas 3 and 4 added, for the tests that bring such files up to date.
#pragma once

namespace harness::test {

inline constexpr const char* kSchema2 = R"sql(
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
  argv TEXT NOT NULL
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
CREATE INDEX cases_by_label ON cases (scenario, label, run_id);

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
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX judgement_by_case ON judgement (case_row, id);

CREATE TABLE verdict (
  id INTEGER PRIMARY KEY,
  judgement_id INTEGER NOT NULL REFERENCES judgement (id),
  position INTEGER NOT NULL,
  check_name TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('pass', 'inconclusive', 'fail')),
  reason TEXT NOT NULL,
  UNIQUE (judgement_id, position)
) STRICT;

CREATE TABLE measured (
  verdict_id INTEGER NOT NULL REFERENCES verdict (id),
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  value REAL,
  bits INTEGER,
  limit_value REAL,
  limit_bits INTEGER,
  PRIMARY KEY (verdict_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE finding (
  id INTEGER PRIMARY KEY,
  judgement_id INTEGER NOT NULL REFERENCES judgement (id),
  position INTEGER NOT NULL,
  verdict_position INTEGER NOT NULL,
  place INTEGER NOT NULL,
  code TEXT NOT NULL,
  role TEXT NOT NULL,
  status TEXT NOT NULL,
  statement TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX finding_by_judgement ON finding (judgement_id, position);
CREATE INDEX finding_by_code ON finding (code);
)sql";

inline constexpr const char* kAddedTo3 = R"sql(
CREATE TABLE accepted (
  id INTEGER PRIMARY KEY,
  history_id TEXT NOT NULL,
  run_id INTEGER NOT NULL REFERENCES run (id),
  accepted_ms INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX accepted_by_history ON accepted (history_id, id);
)sql";

inline constexpr const char* kAddedTo4 = "CREATE INDEX cases_by_judgement ON cases (judgement_id)";

}  // namespace harness::test
