// Rows of a branch that are not the oracle's, and which known wrong law of attention reproduces them: row by row, every row
// that is wrong, within the same ceiling. No fault and no scenario is known here.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/checks/layer_record.h"
#include "oracles/key_laws.h"

namespace harness::checks {

struct WrongRows {
  std::vector<BadRow> rows;  // (batch, group, row), ascending
  std::set<int> heads;       // query heads with a wrong element
  std::int64_t all = 0;      // (batch, group, row) there are

  [[nodiscard]] std::vector<int> positions() const;  // ascending, at most 64
  [[nodiscard]] std::vector<int> groups() const;
};

inline constexpr std::size_t kMostRows = 4096;  // of a site: a finding stays a page of text

// Rows of `found` [B,G,h,S,V] that differ from `wanted` by more than `limit` in some element; a NaN differs.
[[nodiscard]] WrongRows wrong_rows(const LayerRecord& record,
                                   const std::vector<double>& found,
                                   const oracles::Tensor& wanted,
                                   double limit);

struct LawMatch {
  std::string law;
  double share = 0.0;  // wrong rows among those that would be wrong under the law
};

// Every law that reproduces all wrong rows of the branch. `relative_limit` times the scale is what a law may be off by.
[[nodiscard]] std::vector<LawMatch> matching_laws(const LayerRecord& record,
                                                  oracles::Branch branch,
                                                  const std::vector<double>& found,
                                                  const oracles::Tensor& wanted,
                                                  const WrongRows& wrong,
                                                  double relative_limit);

// The code that a law stands for: MASK.ALIGNMENT, MASK.POLARITY, MASK.ABSENT, else NUMERIC.FORWARD.
[[nodiscard]] std::string code_of_law(const std::string& law);

}  // namespace harness::checks
