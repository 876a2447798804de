// The tables as they were at schema 1, for the test that brings such a file up to date.
#pragma once

namespace harness::test {

inline constexpr const char* kSchema1 = R"sql(
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  folder TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL DEFAULT 0,
  exit_code INTEGER NOT NULL DEFAULT -1,
  complete INTEGER NOT NULL DEFAULT 0,
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
  topic TEXT NOT NULL CHECK (topic IN ('machine', 'environment')),
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run_id, topic, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE cases (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES run (id),
  position INTEGER NOT NULL,
  scenario TEXT NOT NULL,
  label TEXT NOT NULL,
  case_id TEXT NOT NULL,
  case_json TEXT NOT NULL,
  skip_reason TEXT NOT NULL,
  folder TEXT NOT NULL,
  started_ms INTEGER NOT NULL DEFAULT 0,
  seconds REAL NOT NULL DEFAULT 0,
  UNIQUE (run_id, position)
) STRICT;
CREATE INDEX cases_by_label ON cases (scenario, label, run_id);

CREATE TABLE event (
  case_row INTEGER NOT NULL REFERENCES cases (id),
  seq INTEGER NOT NULL,
  process INTEGER NOT NULL,
  t_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (case_row, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
  case_row INTEGER NOT NULL REFERENCES cases (id),
  seq INTEGER NOT NULL,
  process INTEGER NOT NULL,
  metric TEXT NOT NULL,
  step INTEGER NOT NULL,
  value REAL,
  bits INTEGER NOT NULL,
  PRIMARY KEY (case_row, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE judgement (
  id INTEGER PRIMARY KEY,
  case_row INTEGER NOT NULL REFERENCES cases (id),
  judged_ms INTEGER NOT NULL,
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
  bits INTEGER NOT NULL,
  limit_value REAL,
  limit_bits INTEGER,
  PRIMARY KEY (verdict_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE finding (
  id INTEGER PRIMARY KEY,
  judgement_id INTEGER NOT NULL REFERENCES judgement (id),
  verdict_id INTEGER REFERENCES verdict (id),
  position INTEGER NOT NULL,
  code TEXT NOT NULL,
  role TEXT NOT NULL,
  status TEXT NOT NULL,
  statement TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX finding_by_judgement ON finding (judgement_id, position);
CREATE INDEX finding_by_code ON finding (code);
)sql";

}  // namespace harness::test
