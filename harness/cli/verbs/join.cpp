// What a launcher starts for each rank: an agent beside it. Not for people.
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "harness/cli/verbs.h"
#include "harness/run/join/agent.h"

namespace harness::cli {

Action add_join(CLI::App& /*it has no options*/) {
  return [] { return join_as_rank([](const char* name) { return std::getenv(name); }); };
}

}  // namespace harness::cli
