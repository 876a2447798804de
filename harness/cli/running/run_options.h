// What `run` and `selftest` ask in the same way: options of a run, and the plan as far as it does not depend on the cases.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/paths.h"
#include "harness/cli/running/run_session.h"

namespace CLI {
class App;
}

namespace harness::cli {

struct RunOptions {
  std::string profile;
  std::string database;
  std::string out;
  bool keep = false;
  bool json = false;
  bool quiet = false;
};

struct Part {    // of the cases, for one of several machines
  int part = 1;  // 1..parts
  int parts = 1;

  [[nodiscard]] std::string text() const;  // "1/2"
};

// "I/N", as it was given for `option`. Throws: nsa::Error.
[[nodiscard]] Part read_part(const std::string& option, const std::string& text);

// The options are filled when the command line is read; `options` must live until then.
void add_run_options(CLI::App& command, RunOptions& options);

// What scenarios are read with: the profile that was asked for, today's date.
[[nodiscard]] ScenarioOptions scenario_options(const RunOptions& options,
                                               const Paths& paths,
                                               const Machine& machine);

// A plan without cases.
[[nodiscard]] RunPlan empty_plan(const RunOptions& options, const Paths& paths);

// Where the run goes and what it is tied to. `words` are those of the command; `asked` tells what was asked for, so that a
// report can say how to ask for it again.
void complete_plan(RunPlan& plan,
                   const RunOptions& options,
                   const Paths& paths,
                   const Manifest& manifest,
                   const std::vector<std::string>& words,
                   const Pairs& asked);

}  // namespace harness::cli
