// Everything that is planted into healthy evidence, as a table: which check must say what. A check without a pass, a defect and
// missing evidence in here does not count as tested (planted_test.cpp).
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

const std::vector<Planted>& all_planted();

}  // namespace fixtures
