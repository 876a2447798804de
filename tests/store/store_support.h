// Records as the tests of the store need them.
#pragma once

#include <string>

#include "harness/store/store.h"
#include "tests/scenario/valid_case.h"

namespace harness::test {

inline RunRecord a_run(const std::string& name) {
  RunRecord run;
  run.name = name;
  run.folder = "/runs/" + name;
  run.started_ms = 1'000;
  run.provenance.commit = "c0ffee";
  run.provenance.dirty = true;
  run.provenance.argv = "nsa-harness run x.yaml";
  return run;
}

inline CaseRecord a_case(std::int64_t run_id, int position, const std::string& label) {
  CaseRecord record;
  record.run_id = run_id;
  record.position = position;
  record.scenario = "fake";
  record.label = label;
  record.case_id = "0123456789abcdef";
  record.case_json = case_to_json(valid_case());
  record.folder = "cases/" + std::to_string(position);
  return record;
}

// A row that says so.
inline StoredJudgement stored(const Judgement& judgement,
                              std::int64_t judged_ms = 1,
                              bool whole = true) {
  return {judgement, judged_ms, whole, "5001ce"};
}

// Of these events.
inline StoredJudgement of_events(StoredJudgement judgement, const std::string& events_hash) {
  judgement.events_hash = events_hash;
  return judgement;
}

inline StoredJudgement stored(Outcome outcome, bool whole = true) {
  Judgement judgement;
  judgement.outcome = outcome;
  return stored(judgement, 1, whole);
}

}  // namespace harness::test
