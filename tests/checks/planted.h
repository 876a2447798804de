// Everything that is planted into healthy evidence, as a table: which check must say what. A check without a pass, a defect and
// missing evidence in here does not count as tested (planted_test.cpp).
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

const std::vector<Planted>& all_planted();

// A check that computes with the oracle takes seconds.
[[nodiscard]] bool asks_the_oracle(const std::string& check);

// What `check` says of evidence into which `planted` was put.
struct Said {
  const Planted& planted;
  std::string check;
  harness::CheckResult result;
};

// Of every planted defect and every check; of one that asks the oracle only what it says of its own defects. Computed at the first
// call, which takes a minute.
const std::vector<Said>& all_said();

}  // namespace fixtures
