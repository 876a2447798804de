// The findings of a stored case in full: what happened, the evidence, what was ruled out, what to do next, what follows from
// it, and what could not be judged because of it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/store/store.h"

namespace harness::cli {

// The case of this label, or of this number in the run (from 1). Throws: nsa::Error naming the nearest label.
[[nodiscard]] CaseRecord find_case(const Store& store,
                                   const RunRecord& run,
                                   const std::string& words);

// REQUIRES: the case was judged.
[[nodiscard]] std::string case_text(const CaseRecord& record);
[[nodiscard]] nlohmann::json case_json(const CaseRecord& record);

}  // namespace harness::cli
