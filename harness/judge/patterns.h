// Which findings a pattern means: a family ("forward"), the beginning of a code ("DESYNC."), a code with a variant
// ("NUMERIC.GRADIENT/twin"), with the operation of its site ("ROUTE.MISMATCH@grad_sync"), with one of its parts
// ("RESUME.DIVERGED#schedule") or without some ("RESUME.DIVERGED/diverged!schedule!moments"), with the law that it names
// ("OPT.UPDATE_WRONG=update_lost"), or two of these at once ("DESYNC.+collective").
#pragma once

#include <string>
#include <string_view>

#include "harness/judge/finding.h"

namespace harness {

// The law that a finding names at its site; "" where it names none. Put there with whether it is fitted to the numbers.
[[nodiscard]] std::string law_of(const Site& site);
[[nodiscard]] bool has_fitted_law(const Site& site);
void put_law(const std::string& law, bool fitted, Site& site);  // nothing for ""

[[nodiscard]] bool fits(std::string_view pattern, const Finding& finding);

}  // namespace harness
