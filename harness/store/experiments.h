// Which rows are the experiments of a diagnosis (harness/scenario/experiment.h): they count for no outcome of their run.
#pragma once

#include "harness/store/store.h"

namespace harness {

[[nodiscard]] bool is_experiment(const CaseRecord& record);

}  // namespace harness
