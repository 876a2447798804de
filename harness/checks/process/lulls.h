// Times in which no counter of any rank moved although the case moved on by itself later: who was it, and is that a defect?
#pragma once

#include <string>
#include <vector>

#include "harness/judge/check.h"

namespace harness::checks {

struct Lulls {
  std::vector<Finding>
      findings;  // SLOW.HOST: a rank slept, or computed for what its twin did in no time
  std::vector<std::string>
      notes;  // what is no defect: a compiler that ran, an operation that is long on the twin too
};

[[nodiscard]] Lulls lulls_of(const Evidence& evidence);

}  // namespace harness::checks
