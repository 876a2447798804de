// How the cases of a run are chosen: given one point of a scenario's axes and the outcomes of what was run of it so far, the
// cases to run next. A pure function: it keeps nothing between two calls, so that a report sees the same path in the rows.
#pragma once

#include <span>
#include <vector>

#include "harness/scenario/case.h"

namespace harness {

struct Tried {
  const Case* the_case = nullptr;
  Outcome outcome = Outcome::inconclusive;
};

struct Strategy {
  const char* name = "";
  bool (*is_for)(const Scenario& scenario) = nullptr;
  // In the order in which they are to be run; none: there is nothing more to try. `tried` holds every case that was given
  // before. Throws: nsa::Error if the next case is not valid.
  std::vector<Case> (*next)(const Case& base, std::span<const Tried> tried) = nullptr;
};

}  // namespace harness
