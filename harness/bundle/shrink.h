// The smallest case that still fails alike, found by trying: all counts at once, then each number alone, its lowest
// value first and then halves between, until none gets smaller. Pure but for what `attempt` does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/bundle/sizes.h"

namespace harness {

struct ShrinkTry {
  std::string changes;  // against the case that is being made smaller
  std::string saw;      // what it ended with
  bool alike = false;

  bool operator==(const ShrinkTry&) const = default;
};

struct Shrunk {
  Case smallest;
  std::vector<ShrinkTry> tries;
  bool stopped = false;  // before all was tried
};

// What a try showed; nothing: no more tries are made.
struct TryResult {
  bool go_on = true;
  bool alike = false;
  std::string saw;
};

// `attempt` runs a case. `is_valid` is asked first: a case that cannot be run here is no try. Every case that is tried
// is smaller than `start`, and no case is tried twice.
[[nodiscard]] Shrunk shrink(const Case& start,
                            const std::function<bool(const Case&)>& is_valid,
                            const std::function<TryResult(const Case&)>& attempt);

}  // namespace harness
