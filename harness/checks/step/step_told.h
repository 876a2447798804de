// What step_is_oracle has to say: departures of single stages of a step, and the findings that they become.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/checks/result.h"
#include "oracles/naming.h"

namespace harness::checks {

// One stage of one rank's step that is not what the oracle makes of what was recorded before it.
struct Departure {
  std::string code;
  std::string op;  // the stage: data, initial_values, loss, ...
  int rank = 0;
  std::int64_t step = 0;
  std::string phase;                // of the step
  std::vector<std::string> params;  // full names, where it is about parameters
  oracles::Naming naming;
  int layer = -1;
  bool by_law = false;  // departures of other laws are another finding
  nlohmann::json detail = nlohmann::json::object();
};

class StepFindings {
 public:
  void add(Departure departure);
  [[nodiscard]] bool empty() const { return groups_.empty(); }
  // One for each code and operation. A law is named where it is the only one that fits in all steps and ranks of it.
  [[nodiscard]] std::vector<Finding> findings() const;

 private:
  struct Group {
    std::vector<Departure> departures;
  };
  // By code, operation and, where departures are told apart by it, law.
  std::map<std::array<std::string, 3>, Group> groups_;
};

}  // namespace harness::checks
