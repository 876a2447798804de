// Watches processes that live and end together: hears what they record, looks at them when the Supervisor asks for it, and
// says when they must be ended. It signals nobody and owns no process; what it sees becomes events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "harness/run/clock.h"
#include "harness/run/looks/look_history.h"
#include "harness/run/looks/outside.h"
#include "harness/run/record/event_sink.h"
#include "harness/run/supervisor.h"

namespace harness {

class Watch {
 public:
  // Asks a process for its own stacks, which then come as an Observation; false: it cannot answer, and what could be had of
  // its stacks without it is in `seen`. That may take seconds: all processes are asked at once, each by a thread of its own.
  using AskForStacks = std::function<bool(int process, Observation& seen)>;

  // `origin_ms`: monotonic_ms() at the case's beginning.
  Watch(const SupervisorLimits& limits, std::int64_t origin_ms, EventSink& sink, AskForStacks ask);

  // Also where another process takes the number over. `outside` lives until reaped() or ended().
  void started(int process, pid_t pid, Outside& outside);
  void heard(int process, const Event& event);  // a checked event of a live process
  // An Observation that a process made of itself: true where a look waited for it and takes it in.
  [[nodiscard]] bool take_answer(int process, const Event& event);
  // A look from outside that did not come at once; dropped where none waits for it.
  void take_look(int process, Observation seen);
  // It waits for its peers, as something else than itself tells.
  void held(int process, bool is);
  void hopeless(bool is) { supervisor_.hopeless(is); }
  [[nodiscard]] bool suspects() const { return supervisor_.suspects(); }
  void moved() { supervisor_.moved(now_ms()); }  // seen from outside: output, processor time
  void reaped(int process) { members_.erase(process); }  // its pid means nothing from here on
  void ended(int process, bool well, const std::string& how);
  void interrupt(int signal) { supervisor_.interrupt(signal); }

  // A look that decides nothing, at all processes, because the user has asked for it: recorded at once (kAskedLook).
  void look_for_user();

  // One round: reads the states of the processes, takes the looks that are due. Gives, once, why they must be ended.
  [[nodiscard]] std::optional<Stopped> step();

  [[nodiscard]] bool all_well() const { return supervisor_.all_well(); }
  [[nodiscard]] std::int64_t now_ms() const { return monotonic_ms() - origin_ms_; }

 private:
  struct Member {
    Outside* outside = nullptr;
    LookHistory looks;
  };
  struct Look {
    int number = 0;
    std::int64_t until_ms = 0;
    std::int64_t t_ms = 0;
    std::map<int, Observation> seen;  // by process
    std::set<int> awaited_looks;      // from elsewhere
    std::set<int> awaited;            // their own stacks
  };

  template <typename Row>
  void record(const Row& row) {
    sink_.add(Event::of(kController, now_ms(), row));
  }
  void sample_states();
  // Gives those that answer later.
  std::set<int> ask_for_stacks(std::map<int, Observation>& seen);
  void begin_look(const Decision& decision);
  void collect_look();
  [[nodiscard]] bool all_stand_still() const;
  void record_silent_looks();

  Supervisor supervisor_;
  std::int64_t polls_ms_;  // of its limits
  std::int64_t origin_ms_;
  EventSink& sink_;
  AskForStacks ask_;
  std::map<int, Member> members_;
  std::unique_ptr<Look> look_;
  std::int64_t sampled_ms_ = 0;
};

}  // namespace harness
