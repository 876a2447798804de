// What each process of a case did when, as its events say: phases, collectives from the call until the end, and when
// nothing moved. Milliseconds since the case began. The caller reads the events, which lie in the run's folder and
// not in the database.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/evidence/evidence.h"

namespace reports {

struct Stretch {
  std::string name;  // of the phase; of a collective its operation
  std::int64_t from_ms = 0;
  std::int64_t to_ms = 0;
  std::int64_t step = 0;
  bool open = false;         // it never ended: to_ms is when the process ended, or the case
  std::int64_t number = -1;  // of a collective: its sequence number in the group
  std::string group;         // of a collective
  std::int64_t elements = 0;
};

struct Moment {
  std::int64_t at_ms = 0;
  std::string what;  // "ended by signal 9", "raised std::runtime_error"
};

struct Lane {  // a process
  int process = 0;
  std::vector<Stretch> phases;
  std::vector<Stretch> collectives;
  std::vector<Moment> moments;
};

struct Timeline {
  std::int64_t end_ms = 0;           // of the last event
  std::vector<Lane> lanes;           // ranks first, then the twin; without the controller
  std::vector<Stretch> standstills;  // nothing moved on any rank
  std::vector<Moment> moments;       // of the controller: why it ended the case
};

[[nodiscard]] Timeline timeline_of(const harness::Evidence& evidence);

}  // namespace reports
