// Of every tensor the error that is nearest to its limit, or furthest above it, over all layers, ranks and trials that a check
// judges.
#pragma once

#include <map>
#include <string>

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/result.h"

namespace harness::checks {

class WorstErrors {
 public:
  // A NaN stays: nothing is worse.
  void take(const std::map<std::string, ErrorOfTensor>& errors);

  // Adds "relative_error_TENSOR" of each.
  void put_measured(ResultBuilder& result) const;

  // "o_sel (0.31 of it)": the tensor nearest to its limit.
  [[nodiscard]] std::string nearest() const;

 private:
  std::map<std::string, ErrorOfTensor> worst_;
};

}  // namespace harness::checks
