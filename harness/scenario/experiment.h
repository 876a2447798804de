// A case that a diagnosis runs: a case that failed, with one change, to see whether it still fails in the same way. Its
// point says which change. What was planted in the case stays there, hidden: where the change leaves nothing that it
// could stand in (fewer layers or ranks than it names, an option off), it takes no part.
#pragma once

#include <string>

#include "harness/scenario/case.h"

namespace harness {

// In the point of an experiment: no axis of a file has this name.
inline constexpr const char* kExperimentAxis = "experiment";

// Throws: nsa::Error where `changed` is no valid case.
[[nodiscard]] Case experiment_on(const Case& base,
                                 const Scenario& changed,
                                 const std::string& name);

[[nodiscard]] bool is_experiment(const Case& the_case);
// Its name; "" for a case that is none.
[[nodiscard]] std::string experiment_of(const Case& the_case);
// REQUIRES: an experiment. The label of the case that it was made of.
[[nodiscard]] std::string label_of_base(Case experiment);

}  // namespace harness
