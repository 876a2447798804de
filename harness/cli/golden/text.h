// What the verb `golden` prints: a table for each file, or one object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/judge.h"

namespace harness::cli::golden {

// One judged file.
struct Report {
  const Case& the_case;
  const Judgement& judgement;
  std::string trouble;  // why there is nothing of the model, "" where there is
};

// Title, table, sentence. Gradients and parameters that agree are one line.
[[nodiscard]] std::string report_text(const Report& report);

// NaN and infinities as strings.
[[nodiscard]] nlohmann::json report_json(const Report& report);

}  // namespace harness::cli::golden
