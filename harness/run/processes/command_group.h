// A command of the user's own, supervised from outside: its ranks are found in /proc, what moves is their processor time and
// what they print, and how each ended is read before its parent takes note. When run() returns, none of its processes is left.
//
// As long as no process says that it is a rank, the command itself is rank 0. Where there are ranks, it is their launcher, and is
// watched only once they have ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/foreign/printed.h"
#include "harness/run/processes/callers.h"
#include "harness/run/processes/collective_order.h"
#include "harness/run/processes/command_tree.h"
#include "harness/run/processes/flight_recorders.h"
#include "harness/run/processes/output_growth.h"
#include "harness/run/processes/stalls.h"
#include "harness/run/processes/step_digests.h"
#include "harness/run/record/intake.h"
#include "harness/run/runner.h"

namespace harness {

class CommandGroup {
 public:
  // `origin_ms`: monotonic_ms() at the case's beginning. Throws: nsa::Error as Process::spawn() does.
  CommandGroup(const RunnerOptions& options,
               const SupervisorLimits& limits,
               std::int64_t origin_ms,
               const ProcessRequest& keeper,
               EventSink& sink);

  void run();
  [[nodiscard]] const std::string& stop_reason() const { return stop_reason_; }

 private:
  struct Rank {
    pid_t pid = 0;
    Fd pidfd;
    std::optional<std::int64_t> ended_ms;
    std::optional<ExitStatus> end;  // none although it ended: its parent was quicker
    std::int64_t peak_bytes = 0;    // the largest resident set that was seen, of itself
    bool said_hello = false;        // it has the two lines
    bool says_so = false;           // its number, itself
    bool told_error = false;        // of itself
    std::int64_t ended_in = 0;      // of rounds_
  };

  [[nodiscard]] std::int64_t now_ms() const { return watch_.now_ms(); }
  template <typename Row>
  void record(int process, std::int64_t t_ms, const Row& row) {
    sink_.add(Event::of(process, t_ms, row));
  }

  // One round of the loop, in this order.
  void wait_for_something() const;
  void hear_keeper();
  void hear();
  void scan();
  void find_ranks();
  void find_outputs();
  void find_worker();
  void begin_life(int restarts);
  void notice_ends();
  void watch_launcher();
  void ask_flight_recorders();
  void obey();
  void decide();
  void end_all();
  void press_on();

  void meet(int number, pid_t pid);
  void on_line(pid_t pid, LineReader::Piece piece, std::string_view text);
  void put_stacks(int number, Observation& seen) const;
  [[nodiscard]] int number_of(pid_t pid, std::string_view line);
  void meet_rank(int number, pid_t pid);
  void note_world(int world);
  [[nodiscard]] bool all_tell_themselves() const;
  [[nodiscard]] std::set<int> ranks(bool with_ended) const;  // not the launcher
  [[nodiscard]] std::set<pid_t> held_pids() const;
  [[nodiscard]] FlightRecorders::Wanted wanted_dumps() const;
  [[nodiscard]] bool command_is_rank() const;
  void end(int number, Rank& rank, std::optional<ExitStatus> status);
  [[nodiscard]] bool failed_before(int number) const;
  void record_ends();
  void record_ends_of_life();
  [[nodiscard]] std::string how_life_ended() const;
  void record_end(int number, const Rank& rank);
  [[nodiscard]] MemoryKill memory_kill_of_ranks() const;
  void record_errors(const std::map<int, std::string>& last_lines);
  void record_aborts();
  void record_flights();

  const RunnerOptions& options_;
  EventSink& sink_;
  Callers callers_;
  FlightRecorders flights_;
  CollectiveOrder order_;
  StepDigests digests_;
  Stalls stalls_;
  Watch watch_;
  Intake intake_;
  Process keeper_;
  OutputGrowth output_;
  CommandTree tree_;
  Fd command_fd_;
  std::optional<std::int64_t> command_ended_ms_;
  std::int64_t memory_kills_before_;
  pid_t command_ = 0;          // 0: not heard of yet
  bool ranks_say_so_ = false;  // else the command is taken for rank 0
  int world_ = 0;              // how many ranks there are to be; 0: nothing says so
  std::map<int, Rank> ranks_;  // of this life; kLauncher too, once it is watched
  int restarts_ = 0;           // of all ranks, as the launcher counts them
  int most_restarts_ = 0;
  int lives_ended_ = 0;
  std::int64_t restarting_since_ms_ = 0;  // 0: it is not starting them again
  Printed printed_;                       // in this life
  // What the command prints to: the two files of the record, and behind them the files that processes of it print to instead.
  struct Printout {
    std::string path;
    std::set<int> ranks = {};  // that print to a file of the user's
    std::streamoff from =
        0;  // what was there when it was found, or in the lives before, is not read
  };
  std::vector<Printout> printouts_;
  int told_ = 0;             // of RunnerOptions::asked
  pid_t worker_ = 0;         // that the last scan found below a command without ranks
  std::set<pid_t> sought_;   // processes that called before any scan had found them
  std::int64_t rounds_ = 0;  // of looks at who has ended
  std::string said_by_keeper_;
  ExitStatus keeper_end_;
  std::optional<ExitStatus> command_end_;  // as its keeper tells it
  std::vector<std::string> left_;          // of what the command left behind, the same
  bool killed_keeper_ = false;             // by this program
  std::int64_t printed_ms_ = 0;
  bool flights_recorded_ = false;
  std::int64_t scanned_ms_ = 0;
  std::int64_t ticked_ms_ = 0;
  std::string stop_reason_;
  std::int64_t stopped_ms_ = 0;
  std::int64_t kill_at_ms_ = 0;
};

}  // namespace harness
