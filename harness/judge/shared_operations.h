// Operations that run the same code at several places: the three branches attend alike, all norms of the model are one function.
// What is wrong alike at all of its places is one mistake in that code, though no law names it; what is wrong at some of them may
// be several.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "harness/judge/finding.h"

namespace harness {

// Of findings in the order of telling: those that are the same mistake as an earlier one, and that one: (effect, cause). Together
// with their cause they name every place of one operation, in the same layers, ranks and step, and none of them names a law.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> wrong_at_all_places(
    const std::vector<const Finding*>& told);

inline constexpr const char* kSharedText = "the same operation is wrong at all of its places";

}  // namespace harness
