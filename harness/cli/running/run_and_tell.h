// Runs a plan and tells the user: what each case ended with, the decision and the report's path; or one object with --json.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/cli/running/run_session.h"

namespace harness::cli {

struct Telling {
  bool json = false;
  // What a verb adds: lines before the report's path, or members of the object. May be empty.
  std::function<void(
      const std::vector<CaseRecord>& cases, std::string& lines, nlohmann::json& object)>
      more = {};
};

// Says so when the worker was built from other sources than this program.
[[nodiscard]] bool is_stale(const Manifest& manifest);

// The date in UTC, YYYY-MM-DD, the same for everybody who runs at this moment.
[[nodiscard]] std::string today();

// Gives the exit code. What the plan's `on_result` is, is decided here.
[[nodiscard]] int run_and_tell(RunPlan plan, const Telling& telling);

}  // namespace harness::cli
