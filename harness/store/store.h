// All runs in one SQLite file, the index over the runs' folders. One writer at a time a file, any number of readers; two runs at
// once are safe (WAL, busy timeout). NaN is kept (schema.h). A database that was lost is made again from the folders (rebuild.h).
// Throws nsa::Error naming the file: not a database, of another application, of a newer schema, not writable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/judge/judge.h"
#include "harness/scenario/case.h"
#include "harness/store/digest.h"

namespace harness {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // name, value

struct Provenance {    // of a run; every row of the database is tied to one
  std::string commit;  // of the tree, "" outside a checkout
  bool dirty = false;
  std::string diff_hash;
  std::string source_hash;  // of the binary
  std::string binary_hash;  // of the worker's file
  std::string argv;
  Pairs machine;      // cpu, kernel, gpu, driver, torch, ...
  Pairs environment;  // the allow-list that workers got
  Pairs command;  // program, directory, database, and each option given: set, seed, profile, ...
};

struct RunRecord {
  std::int64_t id = 0;  // runs are numbered in the order in which they came into this database
  std::string name;     // unique, sortable: 20261121T041900Z-1a2b
  std::string folder;   // absolute
  std::int64_t started_ms = 0;  // Unix time, UTC
  std::int64_t ended_ms = 0;    // 0: still running, or killed
  int exit_code = -1;           // -1: not ended
  bool complete = false;        // every planned case has an outcome and was recorded whole
  std::int64_t pruned_ms = 0;   // when its folder was dropped; 0: it was not
  Provenance provenance;

  // What the command line gave for `key`; "" where it was not given.
  [[nodiscard]] std::string option(const std::string& key) const;
};

struct StoredJudgement {
  Judgement judgement;
  std::int64_t judged_ms = 0;
  bool whole = true;  // made with all that had been recorded; false: files were gone or altered
  std::string source_hash;  // of the program that judged
  // Of the events that were judged (LogRead::hash), "" where there were none; none: a judgement of an older version.
  std::optional<std::string> events_hash = {};
};

struct CaseRecord {
  std::int64_t id = 0;
  std::int64_t run_id = 0;
  int position = 0;  // in the run
  std::string scenario;
  std::string label;
  std::string case_id;     // hash of the content
  std::string profile;     // given by the store, as history_id
  std::string history_id;  // the same over the nights, as long as the same is run (case_json.h)
  std::string case_json;
  std::string skip_reason;  // planned as skipped when not empty
  std::string folder;       // relative to the run's folder
  std::int64_t started_ms = 0;
  double seconds = 0.0;
  std::optional<Judgement> judgement;  // that reports: the newest whole one, else the newest
  int judgements = 0;                  // how often it was judged
  int judged_without = 0;  // of them: with less than had been recorded, so that they do not report
  std::optional<std::string> events_hash;  // of the judgement that reports
  Digest digest;
};

// An earlier run of a case, as far as history needs it.
struct Earlier {
  std::int64_t run_id = 0;
  std::string run;
  std::string profile;
  Outcome outcome = Outcome::inconclusive;
  std::string code;             // of the first finding, "" without one
  std::int64_t started_ms = 0;  // of the run
};

// In the point of every launch of a case but the first: no axis of a file has this name.
inline constexpr const char* kLaunchAxis = "launch";

// What one launch of a cell took, where it passed. Milliseconds, medians over its steps.
struct LaunchTimes {
  std::int64_t run_id = 0;
  int position = 0;  // in the run
  double step_ms = 0.0;
  double control_ms = 0.0;
};

// Somebody says that the times of a cell are meant to be as they are from a run on.
struct Acceptance {
  std::string history_id;
  std::int64_t run_id = 0;
  std::int64_t accepted_ms = 0;
  std::string reason;
};

// A run whose rows come all at once: from its folder.
struct WholeCase {
  CaseRecord record;
  std::vector<StoredJudgement> judgements;  // oldest first
};

class Store {
 public:
  using OnNote = std::function<void(const std::string&)>;

  // Opens, creating the file and its folder when `create`; a file of an older schema is brought to this one, which `on_note` is
  // told. A read-only store never writes, and needs no right to write.
  static std::unique_ptr<Store> open(const std::string& path,
                                     bool create,
                                     const OnNote& on_note = {});
  static std::unique_ptr<Store> open_read_only(const std::string& path, const OnNote& on_note = {});
  virtual ~Store() = default;
  [[nodiscard]] virtual const std::string& path() const = 0;  // of its file

  virtual std::int64_t begin_run(const RunRecord& run) = 0;
  virtual std::int64_t plan_case(const CaseRecord& planned) = 0;  // before anything runs
  virtual void begin_case(std::int64_t case_row, std::int64_t started_ms) = 0;
  virtual void finish_case(std::int64_t case_row, double seconds, const Digest& digest) = 0;
  virtual void add_judgement(std::int64_t case_row, const StoredJudgement& judgement) = 0;
  virtual void finish_run(std::int64_t run_row,
                          int exit_code,
                          bool complete,
                          std::int64_t ended_ms) = 0;
  // All of it or nothing. Keeps the run's id where that is free.
  virtual std::int64_t add_run(const RunRecord& run, std::span<const WholeCase> cases) = 0;
  virtual void mark_pruned(std::int64_t run_row, std::int64_t pruned_ms) = 0;
  virtual void accept(const Acceptance& acceptance) = 0;

  // In the order in which they began, as their clocks had it.
  [[nodiscard]] virtual std::vector<RunRecord> runs(std::int64_t since_ms,
                                                    std::int64_t until_ms) const = 0;
  // The one that came last into the database, whatever its clock said.
  [[nodiscard]] virtual std::optional<RunRecord> last_run() const = 0;
  [[nodiscard]] virtual std::optional<RunRecord> run_named(const std::string& name_or_id) const = 0;
  [[nodiscard]] virtual std::vector<CaseRecord> cases(std::int64_t run_id) const = 0;
  // How many cases of the run have each outcome: SKIP when skipped, INCONCLUSIVE when never judged.
  [[nodiscard]] virtual std::map<Outcome, int> tally(std::int64_t run_id) const = 0;
  // The same case in runs that began before its own, by their clocks, newest first, at most `most`: only where it was decided.
  // ERROR, INCONCLUSIVE and SKIP say nothing of it. A run that is not stored began after all others.
  [[nodiscard]] virtual std::vector<Earlier> history(const CaseRecord& now, int most) const = 0;
  // The newest decided case before its own run of the same scenario and label, whatever it was run with.
  [[nodiscard]] virtual std::optional<Earlier> namesake(const CaseRecord& now) const = 0;
  // Of one cell, in the order of the runs and of their cases: those that were measured beside a control.
  [[nodiscard]] virtual std::vector<LaunchTimes> launches(const std::string& history_id) const = 0;
  // Seconds that a cell took, all its launches together, in the newest run in which it ran to its end; 0: in none.
  [[nodiscard]] virtual double seconds_taken(const std::string& history_id) const = 0;
  // The same of all cases of a scenario and profile, for searches: each of their trials is a cell of its own.
  [[nodiscard]] virtual double seconds_taken(const std::string& scenario,
                                             const std::string& profile) const = 0;
  // Of one cell, in the order in which they were said, by their clocks.
  [[nodiscard]] virtual std::vector<Acceptance> acceptances(
      const std::string& history_id) const = 0;
};

// Whether an outcome decides something about the case.
[[nodiscard]] bool is_decided(Outcome outcome);

}  // namespace harness
