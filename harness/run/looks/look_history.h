// The looks at one process since it was last suspected, and what is known of its collectives: enough to say whether it stands
// still. Two looks with stacks come first (0 and 1). Where those show no standstill, looks without stacks follow; of these
// the first and the last are kept (2 and 3) for as long as the process does nothing but sleep.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/evidence/event.h"
#include "harness/evidence/standstill.h"

namespace harness {

class LookHistory {
 public:
  struct Taken {
    std::int64_t t_ms = 0;
    Observation seen;
  };

  void heard(const Event& event);  // a checked event of the process

  void held(bool is) { held_ = is; }  // by its peers, as something else than itself tells
  void bears_polls_for(std::int64_t ms) { polls_ms_ = ms; }  // Looked::polls_ms
  // The main thread had given up the processor so often at this time; -1: not readable.
  void sampled(std::int64_t switches, std::int64_t t_ms);
  // Observation::woke, of a look at `t_ms`, if nothing has moved since `still_since_ms`.
  [[nodiscard]] std::int64_t woke(std::int64_t still_since_ms, std::int64_t t_ms) const;
  void clear();
  void take(Observation seen, std::int64_t t_ms);

  // The newest two looks of one sort. Without both, nothing is known and `before` is null.
  [[nodiscard]] Looked newest() const;

  // Looks without stacks that are not in the record yet; gives each once.
  [[nodiscard]] std::vector<Taken> unrecorded();

 private:
  void take_silent(Taken look);

  std::string phase_;
  bool held_ = false;
  std::int64_t polls_ms_ = 0;
  std::set<std::pair<std::string, std::int64_t>> open_;  // collectives entered and not left
  std::array<std::optional<Taken>, 4> looks_;
  std::optional<Taken> silent_before_;  // the look before the newest one without stacks
  std::deque<std::pair<std::int64_t, std::int64_t>>
      sampled_;  // time and number of switches, the oldest first
  bool newest_is_silent_ = false;
  bool recorded_ = true;
};

}  // namespace harness
