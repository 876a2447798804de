// Whether what the database says of a run is what the run's folder says, and whether the files there are those that were
// recorded. The folder's record is hashed, so that whoever alters one of the two is found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace harness {

struct Verified {
  std::vector<std::string>
      wrong;               // a line each: what and where, found and wanted; none: all agrees
  std::int64_t cases = 0;  // compared
  std::int64_t files = 0;  // of the ranks: there, and of the recorded hash
  std::int64_t files_gone =
      0;  // of the ranks: not there; wrong unless they were dropped on purpose
};

// Writes nothing but a database of its own, below the folder for temporary files, which it removes.
// Throws: nsa::Error where nothing can be compared: the run's folder was dropped, or is not there.
[[nodiscard]] Verified verify_run(const Store& store, const RunRecord& run);

}  // namespace harness
