// A cell as the user names it.
#pragma once

#include <string>

#include "harness/store/store.h"

namespace harness::cli {

struct Cell {
  std::string label;
  std::string history_id;
};

// By its label in the newest run that has it, or by its history id; one of the newest 30 runs has it. Profiles of a scenario may
// share labels: one that was run goes before those that were skipped. Throws: nsa::Error where there is none, or where the label
// does not tell several that were run from each other.
[[nodiscard]] Cell find_cell(const Store& store, const std::string& words);

}  // namespace harness::cli
