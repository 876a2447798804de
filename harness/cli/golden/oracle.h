// What the float64 oracle makes of a golden file's inputs, under the README's names.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "harness/cli/golden/case.h"

namespace harness::cli::golden {

struct Wanted {
  std::map<std::string, oracles::Tensor> tensors;
  std::optional<oracles::IntTensor>
      blocks;  // attention level: its own choice, or in a model's results the model's

  // Of all choices that scores decide, in every layer and step.
  double smallest_margin = std::numeric_limits<double>::infinity();
  double smallest_untied = std::numeric_limits<double>::infinity();
  std::int64_t tie_rows = 0;

  [[nodiscard]] const oracles::Tensor& at(const std::string& name) const {
    return tensors.at(name);
  }
};

// all: every result there is. judged: what the file's results are compared with; the file's blocks are replayed, where they
// are blocks.
enum class Extent { judged, all };

// Throws: nsa::Error where the oracle refuses the inputs.
[[nodiscard]] Wanted oracle_results(const Case& the_case, Extent extent);

// The same of one attention layer computed in a narrow type: the yardstick (harness/checks/error_budget.h).
// It attends to the blocks that the oracle's results were computed with. From draw 1 on the roundings are drawn, and in every
// other draw the probabilities and their gradients are rounded before their products: whose results these are is not known.
[[nodiscard]] Wanted narrow_results(const Case& the_case,
                                    const Wanted& oracle,
                                    oracles::Number number,
                                    int draw = 0);

// Writes a golden file with inputs, weights and every result as the oracle computes it, in float64.
// Throws: nsa::Error where it cannot be written.
void export_golden(const Case& the_case, const std::string& path);

}  // namespace harness::cli::golden
