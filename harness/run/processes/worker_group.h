// Worker processes that live and end together (the ranks of a case, or its twin), under one Supervisor and one poll loop on
// the caller's thread. Reads what they record, looks at them, ends them; turns all of it into events. When run() returns,
// or the destructor, none of the processes is left, save one that the kernel itself cannot end (said as a fact), or one that
// cannot be reached any more (said too; whoever is beside it ends it).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/looks/machine_state.h"
#include "harness/run/processes/watched_process.h"
#include "harness/run/record/intake.h"
#include "harness/run/runner.h"

namespace harness {

// Ends all processes of a group as a power cut would: SIGKILL to every one, some time after the first of them entered a phase.
struct PlannedKill {
  std::int64_t step = 0;
  std::string phase;
  std::int64_t after_ms = 0;
};

class WorkerGroup {
 public:
  // `origin_ms`: monotonic_ms() at the case's beginning.
  WorkerGroup(const RunnerOptions& options,
              const SupervisorLimits& limits,
              std::int64_t origin_ms,
              EventSink& sink);

  // One that has just been started. `oom_kills`: what options.memory.kills() said before.
  void add(int process, std::unique_ptr<WatchedProcess> started, std::int64_t oom_kills);
  // Starts it on this machine. Throws: nsa::Error as Process::spawn() does.
  void start(int process, const ProcessRequest& request);
  // Before run(). It comes only while every process lives: what had ended before, had ended by itself.
  void plan_kill(const PlannedKill& kill) { kill_ = kill; }
  void run();

  [[nodiscard]] bool all_well() const { return watch_.all_well(); }
  [[nodiscard]] bool was_killed() const { return killed_; }  // as planned
  [[nodiscard]] bool was_stopped() const { return !stop_reason_.empty(); }
  [[nodiscard]] const std::string& stop_reason() const { return stop_reason_; }
  [[nodiscard]] bool lost_one() const { return lost_one_; }  // that could not be reached any more

 private:
  struct Member {
    int process_number = 0;
    std::unique_ptr<WatchedProcess> process;
    std::int64_t oom_kills_before = 0;
    bool said_hello = false;
    bool finished = false;   // Done was seen
    bool signalled = false;  // the controller sent it a signal
    bool ended = false;      // its end is known; more may come from what it left behind
    bool gone = false;       // its end is recorded, or it was left
    std::int64_t drain_until_ms = 0;
  };
  [[nodiscard]] std::int64_t now_ms() const { return watch_.now_ms(); }
  template <typename Row>
  void record(const Row& row) {
    sink_.add(Event::of(kController, now_ms(), row));
  }

  // One round of the loop, in this order.
  void wait_for_something() const;
  void read_pipes();
  void notice_ends();
  void kill_as_planned();
  void decide();
  void press_on();

  void read_pipe(Member& member);
  void on_line(Member& member, LineReader::Piece piece, std::string_view text);
  void record_end(Member& member);
  void record_lost(Member& member, const std::string& why);
  [[nodiscard]] MemoryKill memory_kill_of(const Member& ended) const;
  [[nodiscard]] bool ask_for_stacks(int process) const;
  void begin_stop(const Stopped& stopped);
  void notice_kill_point(const Event& event);
  void signal_all(int number);
  void leave(Member& member);
  [[nodiscard]] bool all_gone() const;

  const RunnerOptions& options_;
  EventSink& sink_;
  Watch watch_;
  Intake intake_;
  std::vector<std::unique_ptr<Member>> members_;
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
