// One resolved point of a scenario: what a run executes. Its id is the hash of its canonical JSON, so equal cases have equal
// ids on every machine. The worker reads the same JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"

namespace harness {

struct Case {
  Scenario scenario;  // every axis fixed
  std::vector<std::pair<std::string, std::string>>
      point;       // axis -> value, in the order of the file
  std::string id;  // 16 hex digits

  [[nodiscard]] std::string label() const;  // "ddp_onestep", "ddp_onestep[parallel.ranks=2]"
  bool operator==(const Case&) const = default;
};

// Whether the scenario of this file has a profile of this name. Throws: nsa::Error with file:line.
[[nodiscard]] bool has_profile(const std::string& path, const std::string& name);

// Reads one file into its cases: one without `axes`, else their product; those of every profile are checked as well.
// Throws: nsa::Error with file:line.
[[nodiscard]] std::vector<Case> load_cases(const std::string& path,
                                           const ScenarioOptions& options,
                                           const Manifest& manifest);

// Canonical JSON (sorted keys, all defaults filled in); case_from_json() reads it back to an equal case, as strictly as YAML.
// The id is the hash of its member "scenario", which holds no path of this machine.
[[nodiscard]] std::string case_to_json(const Case& the_case);
[[nodiscard]] Case case_from_json(const std::string& text, const std::string& file);

}  // namespace harness
