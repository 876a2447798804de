// The gradient ledger of a case, by step, rank and parameter. Points into the evidence and dies with it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "harness/checks/agreement.h"

namespace harness::checks {

struct LedgerKey {
  std::int64_t step = 0;
  int rank = 0;  // in the twin: of_rank
  std::string param;
  auto operator<=>(const LedgerKey&) const = default;
};

// Whether another rank holds the same piece is not known: nothing is compared, and no reduction is expected (Gradient::piece).
[[nodiscard]] inline bool is_of_one_rank(const std::string& piece) {
  return piece.starts_with("rank ");
}

// No gradient came: the record says so, and an empty hash is right.
[[nodiscard]] inline bool has_none(const Gradient& row) {
  return row.state == "none" || row.state == "frozen";
}

// What a rank holds of a gradient, before and after the reduction.
[[nodiscard]] inline Held held(const Gradient& row, const std::string& hash) {
  return hash.empty() && has_none(row) ? Held::nothing() : Held::hash(hash);
}
// What two recorded local gradients say together.
[[nodiscard]] inline Said agree(const Gradient& one, const Gradient& other) {
  return agree(held(one, one.hash_before), held(other, other.hash_before));
}

struct Ledger {
  explicit Ledger(const Evidence& evidence) {
    for (const auto& row : evidence.gradients) {
      if (row.process >= 0) ranks.put({row.row.step, row.process, row.row.param}, row);
      if (row.process == kTwin) twin.put({row.row.step, row.row.of_rank, row.row.param}, row);
    }
  }

  Latest<LedgerKey, Gradient> ranks;
  Latest<LedgerKey, Gradient> twin;
};

}  // namespace harness::checks
