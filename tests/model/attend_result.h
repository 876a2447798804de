// What a back end of a branch gives, against what another one gives; and what makes memory that was never written show.
#pragma once

#include <string>
#include <vector>

#include "tests/model/support.h"

namespace nsa::testing {

struct AttendResult {
  torch::Tensor o_BHSD;
  std::vector<torch::Tensor> gradients;  // of q, k and v
};

inline double error_of(const AttendResult& found, const AttendResult& wanted, std::string& name) {
  Comparison comparison;
  comparison.add("output", "o", found.o_BHSD, wanted.o_BHSD);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string which = i == 0 ? "dq" : i == 1 ? "dk" : "dv";
    comparison.add("gradient", which, found.gradients[i], wanted.gradients[i]);
  }
  return comparison.worst(name);
}

// While it lives, torch.empty() begins as NaN.
class EmptyIsNan {
 public:
  EmptyIsNan() {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
  ~EmptyIsNan() { at::globalContext().setDeterministicAlgorithms(false, false); }
  EmptyIsNan(const EmptyIsNan&) = delete;
  EmptyIsNan& operator=(const EmptyIsNan&) = delete;
};

}  // namespace nsa::testing
