// What a case was run with, as rows of a table: model, training and parallel configuration, its route, and what was planted.
#pragma once

#include <string>
#include <vector>

#include "reports/sections/by_scenario.h"

namespace reports {

struct ConfigurationRow {
  std::string name;
  std::vector<std::string> parts;  // Markdown; cases that differ mostly differ in few of them
  std::string text;                // all of them
};

// Without what is known to fail and without the case's id. REQUIRES: one.the_case.
[[nodiscard]] std::vector<ConfigurationRow> configuration_rows(const CaseView& one);

// What all of these cases have in common, with a word where they differ. REQUIRES: the_case of each; at least one.
[[nodiscard]] std::vector<ConfigurationRow> common_rows(const Cases& cases);

}  // namespace reports
