// A scenario file with its profile and the command line's overrides laid over it, and the axes that are left to expand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"

namespace harness {

struct Axis {
  std::string path;                                           // parallel.ranks
  std::vector<std::pair<std::string, nsa::YamlNode>> values;  // as text, as YAML
};

struct ScenarioFile {
  nsa::YamlNode root;   // without `profiles` and `axes`
  std::string profile;  // laid over, "" for none
  std::vector<Axis> axes;
};

// A value on one line, as YAML's flow style has it: how values of axes are named and compared.
[[nodiscard]] std::string flow_text(const nsa::YamlNode& node);

// The profiles that the file names, in its order.
[[nodiscard]] std::vector<std::string> profiles_of(const nsa::YamlNode& document);

// The one to apply: options.profile, else `gpu` where this machine has what the scenario with it requires, else "".
// Throws: nsa::Error listing the known ones.
[[nodiscard]] std::string choose_profile(const nsa::YamlNode& document,
                                         const ScenarioOptions& options);

// Order: file, profile, --set, --seed. Throws: nsa::Error at the line of the file, or at "--set path=value".
[[nodiscard]] ScenarioFile resolve_file(nsa::YamlNode document,
                                        const std::string& profile,
                                        const ScenarioOptions& options);

// Keeps of each axis what --only asks for. Throws: nsa::Error if it asks for what is not there.
void keep_only(std::vector<Axis>& axes,
               const std::vector<std::pair<std::string, std::string>>& only,
               const std::string& file);

}  // namespace harness
