// Whether this build knows what a case from elsewhere names.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/case.h"

namespace harness {

// REQUIRES: the case was read by case_from_json(), which looks at its form. Throws: nsa::Error, `where` in front, at a
// kind, check, seam, implementation or fault that is not known here; with the nearest that is.
void require_known_names(const Case& the_case,
                         const std::vector<std::string>& checks,
                         const Manifest& manifest,
                         const std::string& where);

}  // namespace harness
