// A resolved YAML document -> Scenario. Used for scenario files (after profile, --set and axes) and for the JSON of a case,
// which is the same document with every default filled in.
#pragma once

#include <string>

#include "harness/core/scenario.h"

namespace harness {

struct ReadContext {
  std::string path;  // of the scenario file, absolute: text paths are relative to its folder
  const ScenarioOptions* options =
      nullptr;  // both null when a case is read back: its names were checked once
  const Manifest* manifest = nullptr;
};

// `root` has neither profiles nor axes. Throws: nsa::Error with file:line.
[[nodiscard]] Scenario read_scenario(const nsa::YamlNode& root, const ReadContext& context);

// Parts of it, in planted_read.cpp: what a planted fault is and what must be said of it.
[[nodiscard]] FaultRequest read_fault(const nsa::YamlNode& node,
                                      const Scenario& scenario,
                                      const Manifest* manifest);
[[nodiscard]] Expectation read_expectation(const nsa::YamlNode& node);

}  // namespace harness
