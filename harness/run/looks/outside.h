// A process as it is seen from outside: through /proc of the machine where it runs.
#pragma once

#include <optional>

#include "harness/run/looks/proc_look.h"

namespace harness {

class Outside {
 public:
  Outside() = default;
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  virtual ~Outside() = default;

  // The newest that is known.
  [[nodiscard]] virtual std::optional<ProcessState> state() const = 0;
  // `all`: the processes of this machine. Nothing: the look was asked for and comes later (Watch::take_look).
  virtual std::optional<Observation> look(int process, int look, const Processes& all) = 0;
};

}  // namespace harness
