// What the reference model makes of a golden file, computed by the worker beside this controller.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/oracle.h"

namespace harness::cli::golden {

struct Worker {
  std::string path;
  std::vector<std::string> environment;  // NAME=value
};

// The worker died, said no, ran past its deadline or did not write what it was asked for: nothing is known of the model.
class WorkerFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A signal asked this program to stop.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// The results that the file has, from the worker. It is given `oracle_seconds`, what the oracle needed for the same, many times
// over. Leaves nothing behind. Throws: WorkerFailure, Interrupted, nsa::Error (no temporary folder, no process).
[[nodiscard]] Wanted model_results(const Case& the_case,
                                   const Worker& worker,
                                   double oracle_seconds);

}  // namespace harness::cli::golden
