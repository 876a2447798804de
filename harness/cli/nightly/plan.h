// What a night runs, and in which order: the cases of all scenarios at the profile that fits the machine. Pure but for reading
// the scenario files: the machine is a value that the caller gives.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/cli/machine/machine.h"
#include "harness/cli/running/run_options.h"
#include "harness/scenario/case.h"

namespace harness::cli {

struct NightCase {
  Case the_case;
  std::string history_id;  // identity_of()
  std::string lacking;     // what the machine lacks for it, "" where it can run
  double seconds = 0.0;    // that it is expected to take
};

// What is expected to stand still or to be slow takes all the time that it is given.
[[nodiscard]] bool stands_still(const Scenario& scenario);

// Of a case and its history_id, the seconds that it is expected to take: positive.
using ExpectedSeconds = std::function<double(const Case&, const std::string&)>;

// A scenario with a profile `gpu` has the cases of that profile. Where this machine can run none of them, it has those without
// a profile as well, so that it is not left out altogether; the others stay in the list, as what was not run.
// In the order in which a budget of any size covers most: the main job (ddp_onestep); the cheapest case of every scenario, those
// that plant no fault first; all others by what they are worth for their time; last what is expected to stand still or to be slow,
// which takes its time whatever the machine. A shard is chosen by the content of a case, so that it is the same part every night.
// Throws: nsa::Error with file:line.
[[nodiscard]] std::vector<NightCase> night_cases(const std::vector<std::string>& files,
                                                 const ScenarioOptions& options,
                                                 const Machine& machine,
                                                 const Manifest& manifest,
                                                 const Part& shard,
                                                 const ExpectedSeconds& expected);

}  // namespace harness::cli
