// A case as a run has it: a shipped scenario, read once.
#pragma once

#include <string>

#include "harness/scenario/case.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/where.h"

namespace harness::test {

inline const Case& valid_case() {
  static const std::string kRoot = fakes::tree();
  static const Case kCase =
      load_cases(
          kRoot + "/scenarios/ddp_onestep.yaml", fakes::scenario_options(kRoot), fakes::manifest())
          .front();
  return kCase;
}

}  // namespace harness::test
