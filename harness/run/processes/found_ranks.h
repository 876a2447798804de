// The ranks of a command of the user's own: found in /proc below its keeper, moving as their processor time and what they print
// tell, their ends read before a parent takes note. When run() returns, none of its processes is left.
//
// As long as no process says that it is a rank, the command itself is rank 0. Where there are ranks, it is their launcher, and is
// watched only once they have ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/run/processes/callers.h"
#include "harness/run/processes/collective_order.h"
#include "harness/run/processes/command_tree.h"
#include "harness/run/processes/flight_recorders.h"
#include "harness/run/processes/keeper.h"
#include "harness/run/processes/last_words.h"
#include "harness/run/processes/output_growth.h"
#include "harness/run/processes/stalls.h"
#include "harness/run/processes/step_digests.h"
#include "harness/run/supervision.h"

namespace harness {

class FoundRanks : private Source {
 public:
  // `origin_ms`: monotonic_ms() at the case's beginning. Throws: nsa::Error as Process::spawn() does.
  FoundRanks(const RunnerOptions& options,
             const SupervisorLimits& limits,
             std::int64_t origin_ms,
             const ProcessRequest& keeper,
             EventSink& sink);

  void run();
  [[nodiscard]] const std::string& stop_reason() const { return group_.stop_reason(); }

 private:
  [[nodiscard]] int add_to(std::vector<pollfd>& waited) const override;
  void look() override;
  void weigh() override;
  [[nodiscard]] bool gone() override;
  [[nodiscard]] bool ended_well(int number, const Supervised& one) override;
  void put_stacks(int number, Observation& seen) const override;
  [[nodiscard]] bool may_end(const std::string& reason) override;
  std::int64_t end_all(int signal) override;

  [[nodiscard]] std::int64_t now_ms() const { return group_.now_ms(); }
  template <typename Row>
  void record(int process, std::int64_t t_ms, const Row& row) {
    group_.record(process, t_ms, row);
  }

  void hear_keeper();
  void hear();
  void scan();
  void find_ranks();
  void find_worker();
  void begin_life(int restarts);
  void watch_launcher();
  void ask_flight_recorders();
  void obey();

  void meet(int number, pid_t pid);
  void on_line(pid_t pid, LineReader::Piece piece, std::string_view text);
  [[nodiscard]] int number_of(pid_t pid, std::string_view line);
  void meet_rank(int number, pid_t pid);
  void note_world(int world);
  [[nodiscard]] bool all_tell_themselves() const;
  [[nodiscard]] std::set<int> ranks(bool with_ended) const;  // not the launcher
  [[nodiscard]] std::set<pid_t> held_pids() const;
  [[nodiscard]] FlightRecorders::Wanted wanted_dumps() const;
  [[nodiscard]] bool command_is_rank() const;
  [[nodiscard]] bool all_ended_well() const;
  [[nodiscard]] bool failed_before(int number) const;
  void record_ends();
  void record_ends_of_life();
  void complete_end(int number, Supervised& rank);
  void complete_ranks();
  void record_error_files();
  [[nodiscard]] std::string how_life_ended() const;
  void record_flights();

  const RunnerOptions& options_;
  Supervision group_;  // of this life; kLauncher too, once it is watched
  EventSink& sink_;
  Callers callers_;
  FlightRecorders flights_;
  CollectiveOrder order_;
  StepDigests digests_;
  Stalls stalls_;
  Process keeper_;
  OutputGrowth output_;
  LastWords words_;
  CommandTree tree_;
  Fd command_fd_;
  std::optional<std::int64_t> command_ended_ms_;
  pid_t command_ = 0;          // 0: not heard of yet
  bool ranks_say_so_ = false;  // else the command is taken for rank 0
  int world_ = 0;              // how many ranks there are to be; 0: nothing says so
  int restarts_ = 0;           // of all ranks, as the launcher counts them
  int most_restarts_ = 0;
  int lives_ended_ = 0;
  std::int64_t restarting_since_ms_ = 0;  // 0: it is not starting them again
  int told_ = 0;                          // of RunnerOptions::asked
  pid_t worker_ = 0;                      // that the last scan found below a command without ranks
  std::set<pid_t> sought_;                // processes that called before any scan had found them
  std::string said_by_keeper_;
  ExitStatus keeper_end_;
  KeeperSaid said_;
  bool asked_command_to_end_ = false;
  std::int64_t give_up_ms_ =
      0;  // its keeper was killed, and is not waited for after this; 0: it was not
  std::int64_t printed_ms_ = 0;
  bool flights_recorded_ = false;
  std::int64_t scanned_ms_ = 0;
  std::int64_t stopping_since_ms_ = 0;  // 0: they are not to be ended
};

}  // namespace harness
