// The names of a golden file against those that its configuration has: all that is missing is told at once, and a name that
// was misspelt is refused instead of being left unjudged.
#pragma once

#include <map>
#include <string>

#include "harness/cli/golden/case.h"

namespace harness::cli::golden {

// `weights`: by name without prefix, as the configuration has them.
// Throws: nsa::Error with every weight that is missing, every one that the configuration does not have, and every name that is
// nearly one which the file lacks.
void require_names(const GoldenFile& file,
                   const Case& c,
                   const std::map<std::string, oracles::Shape>& weights);

}  // namespace harness::cli::golden
