// What the back ends of a route round (docs/arithmetic.md, "Back ends"). Which back end ran is judged by ran_route.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>

namespace harness::checks {

// Of cmp, sel, win: does the branch multiply narrow numbers? Nothing where a back end of the route has no statement: its
// results in a narrow type have no yardstick then, only the ceiling.
[[nodiscard]] std::optional<std::array<bool, 3>> narrow_products_of(
    const std::map<std::string, std::string>& route);

}  // namespace harness::checks
