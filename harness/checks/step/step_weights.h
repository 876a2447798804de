// Where the weights are on record that the forward of a step computed with: in the step's own file, or in that of the initial
// values.
#pragma once

#include <optional>
#include <string>

#include "harness/checks/step/step_stages.h"

namespace harness::checks {

class StepWeights {
 public:
  StepWeights() = default;
  StepWeights(const StepWeights&) = delete;
  StepWeights& operator=(const StepWeights&) = delete;

  // False: they are nowhere; where a file is lacking, that is said.
  [[nodiscard]] bool find(StepJudge& judge, const StepFile& step);

  // REQUIRES: find() gave true. `step` outlives this.
  [[nodiscard]] const nsa::SafetensorsFile& file() const { return *file_; }
  [[nodiscard]] std::string name_of(const std::string& param) const { return prefix_ + param; }

 private:
  const nsa::SafetensorsFile* file_ = nullptr;
  std::string prefix_;
  std::optional<nsa::SafetensorsFile> initial_;
};

}  // namespace harness::checks
