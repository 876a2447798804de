// All runs in one SQLite file (SPEC 9). One writer at a time a file, any number of readers; two runs at once are safe (WAL,
// busy timeout). NaN is kept: see real.h of the implementation. Everything can be rebuilt from the runs' JSONL.
// Throws nsa::Error naming the file: not a database, of another application, of a newer schema, not writable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/case.h"
#include "harness/core/evidence.h"
#include "harness/judge/judge.h"

namespace harness {

struct Provenance {    // of a run; every row of the database is tied to one
  std::string commit;  // of the tree, "" outside a checkout
  bool dirty = false;
  std::string diff_hash;
  std::string source_hash;  // of the binary
  std::string binary_hash;  // of the worker's file
  std::string argv;
  std::vector<std::pair<std::string, std::string>>
      machine;  // name, value: cpu, kernel, gpu, driver, torch, ...
  std::vector<std::pair<std::string, std::string>> environment;  // the allow-list that workers got
};

struct RunRecord {
  std::int64_t id = 0;
  std::string name;             // unique, sortable: 20261121T041900Z-1a2b
  std::string folder;           // absolute
  std::int64_t started_ms = 0;  // Unix time, UTC
  std::int64_t ended_ms = 0;    // 0: still running, or killed
  int exit_code = -1;           // -1: not ended
  bool complete = false;        // every planned case has an outcome and was recorded whole
  Provenance provenance;
};

struct CaseRecord {
  std::int64_t id = 0;
  std::int64_t run_id = 0;
  int position = 0;  // in the run
  std::string scenario;
  std::string label;
  std::string case_id;  // hash of the content
  std::string case_json;
  std::string skip_reason;  // planned as skipped when not empty
  std::string folder;       // relative to the run's folder
  std::int64_t started_ms = 0;
  double seconds = 0.0;
  std::optional<Judgement> judgement;                   // the newest
  int judgements = 0;                                   // how often it was judged
  std::vector<std::pair<std::string, double>> metrics;  // last value of each sample of rank 0
};

class Store {
 public:
  // Opens, creating the file and its folder when `create`. A read-only store never writes.
  static std::unique_ptr<Store> open(const std::string& path, bool create);
  static std::unique_ptr<Store> open_read_only(const std::string& path);
  virtual ~Store() = default;

  virtual std::int64_t begin_run(const RunRecord& run) = 0;
  virtual std::int64_t plan_case(const CaseRecord& planned) = 0;  // before anything runs
  virtual void begin_case(std::int64_t case_row, std::int64_t started_ms) = 0;
  virtual void add_event(std::int64_t case_row,
                         const Event& event) = 0;  // buffered; flush() writes
  virtual void flush() = 0;
  virtual void finish_case(std::int64_t case_row, double seconds) = 0;
  virtual void add_judgement(std::int64_t case_row,
                             const Judgement& judgement,
                             std::int64_t judged_ms) = 0;
  virtual void finish_run(std::int64_t run_row,
                          int exit_code,
                          bool complete,
                          std::int64_t ended_ms) = 0;

  [[nodiscard]] virtual std::vector<RunRecord> runs(
      std::int64_t since_ms, std::int64_t until_ms) const = 0;  // oldest first
  [[nodiscard]] virtual std::optional<RunRecord> last_run() const = 0;
  [[nodiscard]] virtual std::optional<RunRecord> run_named(const std::string& name_or_id) const = 0;
  [[nodiscard]] virtual std::vector<CaseRecord> cases(std::int64_t run_id) const = 0;
  // The newest judged case of the same scenario and label before `before_run`: for "what changed since".
  [[nodiscard]] virtual std::optional<CaseRecord> previous(const CaseRecord& now,
                                                           std::int64_t before_run) const = 0;
  [[nodiscard]] virtual Evidence evidence(const CaseRecord& record, const RunRecord& run) const = 0;
};

}  // namespace harness
