// Runs a case on the kernels: the whole operation, or each step alone with the right inputs.
#pragma once

#include "tests/kernels/judge/tensors.h"

namespace judge {

struct Run {
  AllOutcomes outcome;
  std::vector<std::string> problems;  // gaps written, repeats that differ
};

struct RunOptions {
  int repeats = 1;    // bitwise equal, or a problem
  bool saves = true;  // keep branch outputs; without, there is no backward pass
};

Run run_whole(const Case& one, const CaseInputs& inputs, const RunOptions& options);
// Every seam by itself, chained by hand: compress, attend (three), score and select, combine, and their backward passes.
Run run_steps(const Case& one, const CaseInputs& inputs);

}  // namespace judge
