// The cases of kernels_check, in parts: a covering array of pairs over all axes, every number of heads with every edge length at
// one width, inputs that can fail, sequences of many lengths, long sequences with some of their rows, and repeats.
#pragma once

#include "tests/kernels/judge/case.h"

namespace judge {

struct CheckedCase {
  Case one;
  bool steps = false;  // every branch alone, in place of the whole operation
  int repeats = 1;
  bool saves = true;
};

std::vector<std::string> part_names();
// Throws: std::invalid_argument on a part that there is not.
std::vector<CheckedCase> cases_of(const std::string& part, std::uint64_t seed);

}  // namespace judge
