// How do the sequences of operations of two ranks depart from each other? Told from the sequences themselves: the same operations
// in another order, operations that only one side has, both, or another operation in the place of one.
#pragma once

#include <cstddef>
#include <vector>

namespace harness::checks {

// Operations of one rank in one step, as it issued them; equal numbers are equal operations.
struct IssuedInStep {
  std::vector<int> operations;
  bool whole = true;  // false: the record may have ended before the step did
};

struct SequenceGap {
  bool order = false;                // what both issued, they issued in different orders
  std::vector<std::size_t> extra_a;  // places in `a` of what `b` did not issue
  std::vector<std::size_t> extra_b;
  bool other =
      false;  // each side has operations that the other lacks, or the records are too short to tell
  bool operator==(const SequenceGap&) const = default;
};

// All of it empty where the sequences are equal, as far as both are known.
[[nodiscard]] SequenceGap departure_of(const IssuedInStep& a, const IssuedInStep& b);

}  // namespace harness::checks
