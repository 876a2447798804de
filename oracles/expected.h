// What is right, number by number, and how far a correct computation may be off; and which of some
// wrong laws gives what was found.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "oracles/naming.h"
#include "oracles/numbers.h"
#include "oracles/tensor.h"

namespace oracles {

struct Expected {
  Tensor value;
  Tensor bound;  // as value; not negative
};

// Numbers that are right but for being rounded once by at most `roundoff`, relatively.
Expected rounded_once(Tensor value, double roundoff);

// Throws std::invalid_argument where `found` has another number of elements.
Misfit misfit_of(std::span<const double> found, const Expected& expected);
Misfit misfit_of(const Numbers& found, const Expected& expected);

// A law that may have given the numbers. It is computed when it is asked for; none where it has no
// meaning.
struct Candidate {
  Law law;
  std::function<std::optional<Expected>()> output;
  std::string detail = {};
};

// As described in naming.h. A candidate whose output has another size does not fit.
Naming name_values(std::span<const double> found,
                   const Expected& right,
                   std::span<const Candidate> candidates);

}  // namespace oracles
