// What a case's outcome says against the same case in earlier runs. Only outcomes that decide something are compared: an ERROR,
// an interruption or something inconclusive was never "passed before", and is itself neither new nor fixed.
#pragma once

#include "reports/view.h"

namespace reports {

enum class Change {
  same,       // passed before and passed again
  first,      // never decided before
  fresh,      // passed before, and does not now
  returned,   // the same, and it had failed some time before that
  still,      // fails as it did before
  changed,    // fails otherwise than before
  fixed,      // failed before, and passed now
  undecided,  // nothing can be said now
  not_run     // was chosen for this run, and did not run
};

[[nodiscard]] Change change_of(const CaseView& one);
[[nodiscard]] const char* name_of(Change change);  // "new", "still failing", ...

}  // namespace reports
