// A resolved YAML document -> Scenario. Used for scenario files (after profile, --set and axes) and for the JSON of a case,
// which is the same document with every default filled in.
#pragma once

#include <string>

#include "harness/scenario/scenario.h"

namespace harness {

struct ReadContext {
  std::string path;  // of the scenario file, absolute: text paths are relative to its folder
  const ScenarioOptions* options =
      nullptr;  // both null when a case is read back: its names were checked once
  const Manifest* manifest = nullptr;
  bool is_experiment = false;  // what was planted may have lost its place (experiment.h)
};

// `root` has neither profiles nor axes. Throws: nsa::Error with file:line.
[[nodiscard]] Scenario read_scenario(const nsa::YamlNode& root, const ReadContext& context);

// Parts of it, in planted_read.cpp: what a planted fault is and what must be said of it.
[[nodiscard]] FaultRequest read_fault(const nsa::YamlNode& node,
                                      const Scenario& scenario,
                                      const ReadContext& context);
[[nodiscard]] Expectation read_expectation(const nsa::YamlNode& node);

// In course_read.cpp: what ties `life` and `bisect`, once read, to the rest; the candidates that are not written.
void check_life(const nsa::YamlNode& root, const Scenario& scenario);
void finish_bisect(const nsa::YamlNode& root, Scenario& scenario);

// In known_read.cpp. Of a file: the first of its list that holds at this point and has not expired. Of a case: its map.
// REQUIRES: everything else of `scenario` was read.
[[nodiscard]] std::optional<KnownFailure> read_known(const nsa::YamlNode& root,
                                                     const Scenario& scenario,
                                                     const ReadContext& context);
// One line for each entry that `today` has expired.
[[nodiscard]] std::vector<std::string> expired_known(const nsa::YamlNode& root,
                                                     const std::string& today);

}  // namespace harness
