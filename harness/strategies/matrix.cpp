// Every point of the axes is a case of its own, and what one shows changes nothing for the others.
#include "harness/strategies/list.h"

namespace harness::strategies {

Strategy matrix() {
  return {"matrix",
          [](const Scenario&) { return true; },
          [](const Case& base, std::span<const Tried> tried) {
            return tried.empty() ? std::vector<Case>{base} : std::vector<Case>{};
          }};
}

}  // namespace harness::strategies
