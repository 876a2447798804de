// The cases of a self-test: every planted fault of the corpus, with what its file fixes drawn anew, and beside each the same
// case without the fault. The draws are a pure function of the seed, the file's name and the number of the draw.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/case.h"

namespace harness::cli {

struct SelftestRequest {
  std::vector<std::string> files;  // scenarios that plant a fault
  std::uint64_t seed = 0;
  int draws = 1;  // of each file
  int part = 1;   // 1..parts: only this part of the files, chosen by the seed
  int parts = 1;
  bool full_size =
      false;  // faults of the large model stay in it; else they go into `toy` with three layers
};

// The faulty case of a file comes first, then its healthy twin. What was drawn stands in the label.
// Throws: nsa::Error with file:line; nsa::Error naming a file that plants no fault or does not say what must be found.
[[nodiscard]] std::vector<Case> selftest_cases(const SelftestRequest& request,
                                               const ScenarioOptions& options,
                                               const Manifest& manifest);

}  // namespace harness::cli
