// Decides when a case must be looked at and when it must be ended, from what its processes report and a clock that the
// caller passes in: no process, no file, no real time in here. One for the ranks, another for the twin.
//
// Laws: nothing is called still while a counter of any live process moves within the threshold; when nothing moves and two
// looks show a standstill, it is stopped; when they show that a process computes, sleeps or waits for a busy child, it is looked
// at again and again, until it moves, stands still or is out of its budget; a time limit alone never gives `still`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/evidence/event.h"
#include "harness/evidence/standstill.h"

namespace harness {

struct SupervisorLimits {
  StillLimits still;
  std::int64_t look_apart_ms = 2'000;
  std::int64_t peer_grace_ms = 5'000;
  // Where it is known that what is waited for will not come: then stillness needs no long proof.
  std::int64_t hopeless_floor_ms = 1'500;
  std::int64_t hopeless_apart_ms = 1'000;  // between two looks; a hundred ticks of /proc
  std::int64_t budget_ms = 0;              // since the supervisor was made; 0: none
  // A worker that has not said hello is loading its libraries and has no counters: using CPU counts as moving for this many
  // times the floor (LibTorch from a cold disk on a busy machine takes about a minute).
  std::int64_t loading_floors = 12;
};

struct Decision {
  enum class Kind { nothing, look, stop };
  Kind kind = Kind::nothing;
  int look = 0;                    // of look: 0, 1, and 2 for all later ones; answered by looked()
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
            std::int64_t now_ms);                               // from outside, /proc/PID/stat
  void moved(std::int64_t now_ms) { last_moved_ms_ = now_ms; }  // something did, seen from outside
  [[nodiscard]] std::int64_t last_moved_ms() const { return last_moved_ms_; }
  void ended(int process, bool well, const std::string& how, std::int64_t now_ms);
  void interrupt(int signal) { interrupted_by_ = signal; }
  // Ranks are known to wait for what will not come, or no longer.
  void hopeless(bool is) { hopeless_ = is; }
  // The look that was asked for has been taken. `still`: it and the one before it show a standstill of all live processes.
  void looked(bool still, std::int64_t now_ms);

  // Call often (several times a second), until it answers nothing. Nothing comes after stop.
  [[nodiscard]] Decision decide(std::int64_t now_ms);

  [[nodiscard]] bool suspects() const { return state_ != State::watching; }
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] bool all_well() const { return !bad_end_.has_value() && all_ended(); }

 private:
  enum class State { watching, taking_look, between_looks, slow, stopped };
  enum class Reason { still, budget, peer_ended, interrupted };

  struct Worker {
    bool live = true;
    bool said_hello = false;
    bool held = false;       // stopped by a signal or a tracer
    std::int64_t moved = 0;  // of its newest heartbeat
    std::int64_t cpu_ms = 0;
    std::string phase;
  };

  void forgive_own_delay(std::int64_t now_ms);
  [[nodiscard]] std::int64_t longest_gap_ms() const;
  [[nodiscard]] std::int64_t threshold_ms() const;
  [[nodiscard]] std::int64_t apart_ms() const;
  [[nodiscard]] std::optional<Reason> reason_to_act(std::int64_t now_ms) const;
  [[nodiscard]] bool urgent(std::int64_t now_ms) const;
  [[nodiscard]] bool out_of_budget(std::int64_t now_ms) const;
  [[nodiscard]] bool moved_since_suspected() const;
  Decision while_slow(std::int64_t now_ms);
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
  bool hopeless_ = false;
  std::int64_t started_ms_;
  std::int64_t last_moved_ms_;
  std::int64_t last_decided_ms_;

  State state_ = State::watching;
  Reason reason_ = Reason::still;
  int look_ = 0;
  bool look_taken_ = false;
  bool looks_still_ = false;       // as the newest look says
  std::int64_t suspected_ms_ = 0;  // when the first look was asked for
  std::int64_t look_ms_ = 0;       // when the newest look had been taken
};

}  // namespace harness
