// What two runs computed, by cell: losses and their like step by step, and the bytes of the tensors that were
// recorded. Told and not judged: which number is right is for the checks to say. Two runs of one program on one
// machine have no difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace reports {

struct SeriesDifference {
  std::string label;
  std::string result;      // "loss"
  std::size_t steps = 0;   // that both have
  std::size_t others = 0;  // of them: with other bits
  std::size_t first = 0;   // the first of these, from 1
  double before = 0.0;     // in that step
  double now = 0.0;
  double largest =
      0.0;  // over the steps, |now - before| / |before|; NaN where one of them is no finite number
};

struct TensorDifference {
  std::string label;
  std::size_t files = 0;             // that both have
  std::vector<std::string> others;   // of them: with other bytes
  std::vector<std::string> missing;  // that one of the two has
};

struct ResultDifferences {
  std::vector<SeriesDifference> series;  // only those with a difference, as the next
  std::vector<TensorDifference> tensors;
  std::size_t series_compared = 0;
  std::size_t files_compared = 0;
};

// Cells are matched by their content, one case of each side; planted faults and cases that did not run are left out.
[[nodiscard]] ResultDifferences compare_results(const std::vector<harness::CaseRecord>& before,
                                                const std::vector<harness::CaseRecord>& now);

// A line and tables, without a heading. Markdown.
[[nodiscard]] std::string results_text(const ResultDifferences& differences);

}  // namespace reports
