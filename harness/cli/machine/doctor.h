// What must be right before a verdict can be trusted: this machine, this build.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/machine/machine.h"
#include "harness/cli/paths.h"

namespace harness::cli {

enum class Health { ok, warning, failed };

struct Fact {
  std::string name;
  Health health = Health::ok;
  std::string text;
};

[[nodiscard]] const char* name_of(Health health);

// Looks at the machine, the disk below the database's runs, the database, the build and its worker.
[[nodiscard]] std::vector<Fact> examine(const std::string& database,
                                        const Machine& machine,
                                        const Paths& paths);

}  // namespace harness::cli
