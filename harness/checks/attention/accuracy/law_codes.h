// What the oracle's known wrong laws stand for in findings. The oracle knows no codes and no sites.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/checks/attention/accuracy/layer_departure.h"
#include "oracles/attention/stages.h"
#include "oracles/naming.h"

namespace harness::checks {

// Puts into the departure what the laws say that give all of it: the name of the only one, or the
// names of all where several do; the code, operation and parameter that they agree in.
void explain(const oracles::Naming& naming, oracles::Stage stage, Departure& seen);
// The same of gradients or of a choice: they keep their code.
void explain(const oracles::Naming& naming, Departure& seen);

// The code that all of these laws stand for; NUMERIC.FORWARD where they differ.
[[nodiscard]] std::string code_of(const std::vector<KnownLaw>& laws);

// The laws that have a code, an operation or a parameter of their own.
[[nodiscard]] std::vector<std::string_view> laws_with_codes();

}  // namespace harness::checks
