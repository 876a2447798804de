// `report --verify FILE`: is this report what the database says, and does the database say what was recorded?
#pragma once

#include <string>

#include "harness/store/store.h"

namespace harness::cli {

// Prints a line for everything that differs, and what was compared. `run`: whose report it is; "" for the run in whose folder
// the file lies, or else the last one. Gives an exit code: kExitPass, kExitError where something differs. Throws: nsa::Error
// where there is no such file or run, or where nothing is left of the run to compare with.
[[nodiscard]] int verify_report(const Store& store,
                                const std::string& run,
                                const std::string& file);

}  // namespace harness::cli
