// One run of the harness: plans cases, runs each, judges it, stores the judgement in the run's folder and in the database, frees
// what is no longer needed, writes the report. Nothing is freed before its judgement is stored in both.
// What a strategy asks for after it has seen outcomes is planned then, before it runs.
// What the cases do is evidence; only what this program itself cannot do is an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/machine/environment.h"
#include "harness/cli/machine/machine.h"
#include "harness/cli/running/output_echo.h"
#include "harness/cli/running/progress_line.h"
#include "harness/cli/running/side_by_side.h"
#include "harness/run/cases_at_once.h"
#include "harness/run/clock.h"
#include "harness/run/runner.h"
#include "harness/scenario/case.h"
#include "harness/store/store.h"
#include "harness/strategies/strategy.h"

namespace harness::cli {

// Why a point cannot run here; nothing when it can.
struct Unmet {
  std::string why;
  bool is_error = false;  // the user asked for just this: not to run it is no skip
};

struct RunPlan {
  std::vector<Case> cases;   // the points of the axes; strategies make the cases that are run
  std::vector<Unmet> unmet;  // of each point
  std::string worker;
  std::string python;       // of the user's: what runs cases of kind kernel
  std::string fingerprint;  // Paths::fingerprint
  std::string package;  // the folder of nsa_harness for that Python, if it does not have one itself
  bool hooks_command = false;  // it gets the hook that stands for the two lines
  Launch launch;               // what starts the ranks, where the user names it
  Variables environment;       // allowed_variables()
  Machine machine;
  Provenance provenance;
  std::string database;
  std::string runs_folder;  // the run's folder is made in it
  bool keep = false;
  bool quiet = false;
  std::vector<int> live =
      {};  // descriptors for a command's stdout and stderr, as they come; none: not shown
  Order order = Order::soonest_done;  // of the points
  // Asked when a point's turn has come: why it is not run after all, "" where it is. From any thread; may be empty.
  std::function<std::string(std::size_t point)> cut;
  // Asked when all cases of a point have passed, `made` of them: whether it is launched once more, so that its times can be
  // compared over the nights. From any thread; may be empty.
  std::function<bool(std::size_t point, std::size_t made)> again;
  // Asked when strategy and launches of a point have nothing more to run: the cases that are to be run after all. `ran` holds every
  // case of the point that was run, the first one first. From any thread, one at a time; may be empty.
  std::function<std::vector<Case>(std::size_t point, const std::vector<const CaseRecord*>& ran)>
      more;
  // Of each case, as soon as it is known; may be empty.
  std::function<void(Outcome, const std::string& label, double seconds, const std::string& reason)>
      on_result;
};

class RunSession {
 public:
  // Makes the run's folder, opens the database and plans every case that is known by now in it.
  // Throws: nsa::Error; then no folder is left.
  explicit RunSession(RunPlan plan);

  // All cases, those side by side that fit together, until the last or until interrupted. Afterwards the run is closed in the
  // database. Throws: what no case can be blamed for (memory, threads).
  void run();

  [[nodiscard]] int exit_code() const { return exit_code_; }
  [[nodiscard]] const Store& store() const { return *store_; }
  [[nodiscard]] const RunRecord& record() const { return record_; }
  [[nodiscard]] std::vector<CaseRecord> records() const;  // of all cases, in the order of the plan
  [[nodiscard]] const std::string& report_path() const { return report_path_; }

  // Renders the report into the run's folder. Throws: nsa::Error.
  void write_report();

 private:
  struct Planned {
    std::size_t point = 0;  // of the plan
    Case the_case;
    CaseRecord record;  // with its judgement, once there is one
    bool has_ended = false;
    std::optional<OtherLevel> shown =
        {};  // of a case that is compared with other levels of observation
  };
  using Indices = std::vector<std::size_t>;  // of planned cases

  // Of a point of the plan: in the database and in run.json. Throws: nsa::Error.
  [[nodiscard]] Indices plan_cases(std::size_t point, std::vector<Case> cases);
  void write_plan() const;
  [[nodiscard]] std::vector<Needs> needs_of_points() const;
  // Of every point on a thread of its own.
  void run_point(std::size_t point, const Place& place);
  void leave_out(const Indices& waiting, const std::string& why);
  [[nodiscard]] Indices plan_next(std::size_t point, const Indices& tried);
  [[nodiscard]] std::vector<Case> next_of(std::size_t point, const Indices& tried) const;
  void run_planned(std::size_t index, const Place& place);
  struct Attempt {
    Judgement judgement;
    Evidence evidence;
    Digest digest;  // taken once the case has ended
    double seconds = 0.0;
    std::string events_hash = {};  // of what was recorded (run_folder.h)
  };
  [[nodiscard]] Attempt attempt(std::size_t index, const Place& place);
  [[nodiscard]] RunResult run_attempt(std::size_t index, const Place& place, Evidence& evidence);
  [[nodiscard]] std::string begin_attempt(std::size_t index);
  // Of a case that was run, or left out.
  void note_end(std::size_t index, const Evidence& evidence);
  // What the cases showed that differ from this one in the level of observation alone, where this is the last of them.
  [[nodiscard]] std::vector<OtherLevel> other_levels(std::size_t index);
  [[nodiscard]] std::vector<std::string> environment_of(const Scenario& scenario,
                                                        const Place& place) const;
  // False: the judgement is not stored, and nothing of the case may be freed.
  bool settle(std::size_t index, const Attempt& attempt);
  void show_result(Outcome outcome, std::size_t index, double seconds, const std::string& reason);
  [[nodiscard]] Planned& planned(std::size_t index);
  [[nodiscard]] std::size_t planned_count();
  void finish();
  [[nodiscard]] int code_of_outcomes() const;
  // Does `write` while no other thread writes; a failure is said loudly, once for each cause, and makes the run incomplete, never
  // another verdict.
  template <typename Write>
  bool record_or_tell(Write write);
  void tell(const std::string& line);

  RunPlan plan_;
  std::mutex mutex_;  // of the store, planned_, the records and told_, while points run
  std::unique_ptr<Store> store_;
  RunRecord record_;
  std::deque<Planned> planned_;  // grows, its elements stay where they are
  std::vector<Indices> first_;   // of each point: what is known before anything has run
  std::atomic<std::size_t> ran_ = 0;
  std::unique_ptr<OutputEcho> echo_;  // of the command that runs
  ProgressLine progress_;
  std::string report_path_;
  std::string told_;  // the last failure to record
  std::atomic<bool> incomplete_ = false;
  int exit_code_ = -1;
  std::int64_t began_ms_ = monotonic_ms();
};

}  // namespace harness::cli
