// The processes of a case that live and end together (its ranks, its twin, or a command of the user's own), under one Supervisor
// and one poll loop on the caller's thread. Reads what they record, looks at them, ends them, and turns all of it into events.
// When run() returns, or the destructor, none of the processes is left, save one that the kernel itself cannot end (said as a
// fact), or one that cannot be reached any more (said too; an agent beside it ends it).
//
// A process is started by this program, reached through an agent, or found by a Source: WatchedProcess says how.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/looks/machine_state.h"
#include "harness/run/processes/watched_process.h"
#include "harness/run/record/intake.h"
#include "harness/run/runner.h"

namespace harness {

// A process, and what is known of it.
struct Supervised {
  std::unique_ptr<WatchedProcess> process;
  std::int64_t oom_kills_before = 0;  // what options.memory.kills() said before it was started
  std::int64_t peak_bytes = 0;        // the largest resident set that was seen, of itself
  bool said_hello = false;
  bool finished = false;                 // Done was seen
  bool told_error = false;               // of itself
  std::string error_file = {};           // of a rank of torchrun
  bool numbered_itself = false;          // its number is from itself
  bool asked_to_end = false;             // by this program, while it lived
  bool by_launcher = false;              // a launcher ended it
  std::int64_t drain_until_ms = 0;       // its end is known; more may come from what it left behind
  std::optional<std::int64_t> ended_ms;  // nothing comes of it any more, or it was left
  std::optional<ExitStatus> end;         // none although it ended: nothing tells how

  [[nodiscard]] bool lives() const { return !ended_ms; }
};

// Ends all processes as a power cut would: SIGKILL to every one, some time after the first of them entered a phase.
struct PlannedKill {
  std::int64_t step = 0;
  std::string phase;
  std::int64_t after_ms = 0;
};

// Finds the processes that nobody adds, and reaches those that this program did not start.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  // Gives in how many milliseconds look() is due, whatever happens.
  [[nodiscard]] virtual int add_to(std::vector<pollfd>& waited) const = 0;
  virtual void look() = 0;                // each round, before ends are noticed
  virtual void weigh() = 0;               // each round, before it is decided
  [[nodiscard]] virtual bool gone() = 0;  // no process is left
  // Whether the others may go on after this end. It is recorded by the source, as soon as all is known of it.
  [[nodiscard]] virtual bool ended_well(int number, const Supervised& one) = 0;
  virtual void put_stacks(int number, Observation& seen) const = 0;
  // They are to be ended for this reason: true as soon as the record may close.
  [[nodiscard]] virtual bool may_end(const std::string& reason) = 0;
  virtual std::int64_t end_all(
      int signal) = 0;  // gives in how many milliseconds it must have come true
};

class Supervision {
 public:
  // `origin_ms`: monotonic_ms() at the case's beginning. `source`: lives longer; null: all processes are added.
  Supervision(const RunnerOptions& options,
              const SupervisorLimits& limits,
              std::int64_t origin_ms,
              EventSink& sink,
              Source* source = nullptr);

  // One that has just been started or found; also where it takes over the number of another one.
  Supervised& add(int number, std::unique_ptr<WatchedProcess> started, std::int64_t oom_kills);
  // Starts it on this machine. Throws: nsa::Error as Process::spawn() does.
  void start(int number, const ProcessRequest& request);
  // Before run(). It comes only while every process lives: what had ended before, had ended by itself.
  void plan_kill(const PlannedKill& kill) { kill_ = kill; }
  void run();

  [[nodiscard]] bool all_well() const { return watch_.all_well(); }
  [[nodiscard]] bool was_killed() const { return killed_; }  // as planned
  [[nodiscard]] bool was_stopped() const { return !stop_reason_.empty(); }
  [[nodiscard]] const std::string& stop_reason() const { return stop_reason_; }
  [[nodiscard]] bool lost_one() const { return lost_one_; }  // that could not be reached any more

  // For a source.
  [[nodiscard]] std::map<int, Supervised>& all() { return all_; }
  [[nodiscard]] const std::map<int, Supervised>& all() const { return all_; }
  [[nodiscard]] Watch& watch() { return watch_; }
  [[nodiscard]] const Watch& watch() const { return watch_; }
  [[nodiscard]] std::int64_t now_ms() const { return watch_.now_ms(); }
  [[nodiscard]] bool asked_to_end() const { return kill_at_ms_ != 0; }
  // A line that a process wrote: the event, where it was one.
  std::optional<Event> take(int number, LineReader::Piece piece, std::string_view text);
  void notice_ends();
  void ended(int number, Supervised& one, std::int64_t at_ms);
  void forget(int number);  // it is no process of its own
  // What is known of its end; nothing where that is not known.
  void record_end(int number, Supervised& one);
  template <typename Row>
  void record(int number, std::int64_t t_ms, const Row& row) {
    sink_.add(Event::of(number, t_ms, row));
  }

 private:
  template <typename Row>
  void record(const Row& row) {
    record(kController, now_ms(), row);
  }

  // One round of the loop, in this order.
  void wait_for_something() const;
  void read_pipes();
  void kill_as_planned();
  void decide();
  void press_on();

  void read_pipe(int number, Supervised& one);
  void record_lost(int number, Supervised& one, const std::string& why);
  [[nodiscard]] std::int64_t peak_bytes(const Supervised& one) const;
  [[nodiscard]] MemoryKill memory_kill_of(const Supervised& ended) const;
  [[nodiscard]] bool ask_for_stacks(int number, Observation& seen) const;
  void notice_kill_point(const Event& event);
  void end_all(int signal);
  void leave(int number, Supervised& one);
  [[nodiscard]] bool all_gone() const;

  const RunnerOptions& options_;
  EventSink& sink_;
  Source* source_;
  Watch watch_;
  Intake intake_;
  std::map<int, Supervised> all_;
  std::int64_t ticked_ms_ = 0;
  std::string stop_reason_;
  std::int64_t kill_at_ms_ = 0;  // 0: not decided
  std::int64_t leave_at_ms_ = 0;
  std::optional<PlannedKill> kill_;
  std::optional<std::int64_t> kill_due_ms_;  // its point has come
  bool killed_ = false;
  bool lost_one_ = false;
};

}  // namespace harness
