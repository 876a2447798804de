// The gradient ledger of a case, by step, rank and parameter. Points into the evidence and dies with it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "harness/checks/result.h"

namespace harness::checks {

struct LedgerKey {
  std::int64_t step = 0;
  int rank = 0;  // in the twin: of_rank
  std::string param;
  auto operator<=>(const LedgerKey&) const = default;
};

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
