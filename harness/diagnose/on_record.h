// What the record of the failure shows by itself, so that no experiment has to (who ended, and how), or where none could: a
// known mistake in code that every case runs. Nothing is removed by it.
#pragma once

#include <string>
#include <vector>

#include "harness/bundle/failure.h"
#include "harness/scenario/scenario.h"

namespace harness {

// A sentence; "" where the record alone does not show the cause.
[[nodiscard]] std::string shown_by_record(const Scenario& scenario,
                                          const std::vector<Cause>& causes);

// A sentence; "" where the failure has several causes, names no law or one that is fitted to the numbers, or one of the cases that
// failed alike named another one. REQUIRES: `alike` has one cause at least each.
[[nodiscard]] std::string reproduced_by_law(const std::vector<Cause>& causes,
                                            const std::vector<std::vector<Cause>>& alike);

}  // namespace harness
