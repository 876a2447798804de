// What to type to run something again: whole lines that can be pasted, from any folder.
#pragma once

#include <string>

#include "reports/view.h"

namespace reports {

// The whole run, as it was asked for.
[[nodiscard]] std::string run_again(const harness::RunRecord& run);

// This case alone, with everything that the run was asked for: profile, seed, --set, database. Of a trial of a bisection the
// whole search: it chooses its cases itself.
[[nodiscard]] std::string case_again(const CaseView& one);

// What makes one file of this case, for a colleague.
[[nodiscard]] std::string bundle_again(const CaseView& one);

// case_again() in a checkout of another commit, recorded where the environment says.
[[nodiscard]] std::string case_again_in_checkout(const CaseView& one);

// "PROGRAM WORDS... --db FILE"
[[nodiscard]] std::string on_database(const harness::RunRecord& run, const std::string& words);

}  // namespace reports
