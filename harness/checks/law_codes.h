// What the oracle's known wrong laws stand for in findings. The oracle knows no codes and no sites.
#pragma once

#include <string>

#include "harness/checks/deviation.h"
#include "oracles/attention/stages.h"
#include "oracles/naming.h"

namespace harness::checks {

// Puts into the deviation what the laws say that give all of it: the name of the only one, or the names of all where several
// do; the code, operation and parameter that they agree in.
void explain(const oracles::Naming& naming, oracles::Stage stage, Deviation& seen);
// The same of gradients or of a choice: they keep their code.
void explain(const oracles::Naming& naming, Deviation& seen);

}  // namespace harness::checks
