// Decides when a case must be looked at and when it must be ended, from what its processes report and a clock that the
// caller passes in: no process, no file, no real time in here. One for the ranks, another for the twin.
//
// Laws: nothing is called still while a counter of any live process moves within the threshold; when nothing moves, it is
// stopped after the threshold and two looks; a time limit alone never gives `still`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/evidence/event.h"

namespace harness {

struct SupervisorLimits {
  std::int64_t still_floor_ms = 10'000;
  double still_factor = 20.0;
  std::int64_t look_apart_ms = 2'000;
  std::int64_t peer_grace_ms = 5'000;
  std::int64_t budget_ms = 0;  // since the supervisor was made; 0: none
};

struct Decision {
  enum class Kind { nothing, look, stop };
  Kind kind = Kind::nothing;
  int look = 0;                    // of look: 0 or 1; answered by looked()
  bool wait_for_stacks = false;    // of look: give the processes time to answer
  std::optional<Suspect> suspect;  // with look 0, when stillness is the reason
  std::optional<Fact> fact;        // to be recorded
  Stopped stopped;                 // of stop
};

// All times are milliseconds since the case began and never go back.
class Supervisor {
 public:
  Supervisor(const SupervisorLimits& limits, std::int64_t now_ms);

  void started(int process, std::int64_t now_ms);
  void heard(const Event& event, std::int64_t now_ms);  // a checked event of a worker
  void seen(int process,
            char state,
            std::int64_t cpu_ms,
            std::int64_t now_ms);  // from outside, /proc/PID/stat
  void ended(int process, bool well, const std::string& how, std::int64_t now_ms);
  void interrupt(int signal) { interrupted_by_ = signal; }
  void looked(std::int64_t now_ms);  // the look that was asked for has been taken

  // Call often (several times a second), until it answers nothing. Nothing comes after stop.
  [[nodiscard]] Decision decide(std::int64_t now_ms);

  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] bool all_well() const { return !bad_end_.has_value() && all_ended(); }

 private:
  enum class State { watching, taking_look, between_looks, stopped };
  enum class Reason { still, budget, peer_ended, interrupted };

  struct Worker {
    bool live = true;
    bool said_hello = false;
    bool held = false;       // stopped by a signal or a tracer
    std::int64_t moved = 0;  // of its newest heartbeat
    std::int64_t cpu_ms = 0;
    std::string phase;
  };

  void moved(std::int64_t now_ms) { last_moved_ms_ = now_ms; }
  void forgive_own_delay(std::int64_t now_ms);
  [[nodiscard]] std::int64_t longest_gap_ms() const;
  [[nodiscard]] std::int64_t threshold_ms() const;
  [[nodiscard]] std::optional<Reason> reason_to_act(std::int64_t now_ms) const;
  [[nodiscard]] bool urgent(std::int64_t now_ms) const;
  Decision begin_look(int look);
  Decision suspect(Reason reason, std::int64_t now_ms);
  Decision after_look(std::int64_t now_ms);
  Decision go_on(std::int64_t now_ms);
  Decision stop(Reason reason, std::int64_t now_ms);
  [[nodiscard]] std::string detail(Reason reason, std::int64_t now_ms) const;

  SupervisorLimits limits_;
  std::map<int, Worker> workers_;
  std::map<std::string, std::int64_t> longest_gaps_;  // phase -> longest of any process
  struct BadEnd {
    int process;
    std::string how;
    std::int64_t at_ms;
  };
  std::optional<BadEnd> bad_end_;
  int interrupted_by_ = 0;
  std::int64_t started_ms_;
  std::int64_t last_moved_ms_;
  std::int64_t last_decided_ms_;

  State state_ = State::watching;
  Reason reason_ = Reason::still;
  int look_ = 0;
  bool look_taken_ = false;
  std::int64_t suspected_ms_ = 0;  // when look 0 was asked for
  std::int64_t look_0_ms_ = 0;     // when it had been taken
};

}  // namespace harness
