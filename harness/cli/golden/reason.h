// Why the first stage that differs may differ: everything before it is right, so that a known wrong
// law which gives just what was found is the likely mistake.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/oracle.h"
#include "oracles/laws/match.h"

namespace harness::cli::golden {

// How far a result may be from the oracle's.
using AllowedOf = std::function<oracles::Allowed(const std::string& result)>;

// In words, "" where nothing known explains it. `wrong_rows`: of the choice of blocks, by number.
[[nodiscard]] std::string likely_reason(const Case& the_case,
                                        const Wanted& oracle,
                                        const std::string& stage,
                                        const AllowedOf& allowed,
                                        const std::vector<std::size_t>& wrong_rows);

}  // namespace harness::cli::golden
