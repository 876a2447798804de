// Who gives a code and who expects it: the checks' own lists, and `expect` of the scenario files.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace harness::cli {

struct ExpectedBy {
  std::string scenario;
  std::string fault;  // "" for a scenario that plants none
  std::string file;   // below the folder of scenarios: faults/first_key.yaml
};

struct CodeUse {
  std::vector<std::string> checks;
  std::vector<ExpectedBy> scenarios;
};

struct CodeUses {
  std::map<std::string, CodeUse> of_code;
  std::string
      lacking;  // the folder of scenarios, where it is not there: who expects a code is not known then
};

// An `expect` of "A or B" counts for both. Throws: nsa::Error for a file that is no YAML.
[[nodiscard]] CodeUses code_uses(const std::string& scenarios_folder);

}  // namespace harness::cli
