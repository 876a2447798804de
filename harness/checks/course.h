// What a case trains and for how long: as its scenario says or, of a command of the user's own, as its ranks recorded it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/checks/params.h"
#include "harness/evidence/evidence.h"

namespace harness::checks {

struct Course {
  std::vector<std::string> params;  // in the order of the model
  std::vector<std::int64_t> steps;  // ascending; of a command those that some rank recorded
  Uninfluential expected;           // of a command nothing is known
  bool as_recorded = false;         // of a command: what no rank recorded is not missed

  [[nodiscard]] static Course of(const Evidence& evidence);
};

}  // namespace harness::checks
