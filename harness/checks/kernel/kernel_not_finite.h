// Where all that is wrong of a kernel's result is that numbers are not finite: its inputs are, and so is what the oracle gives.
#pragma once

#include "harness/checks/attention/accuracy/layer_departure.h"
#include "oracles/tensor.h"

namespace harness::checks {

inline constexpr const char* kNotFinite = "NAN.ORIGIN";

// Gives `seen` that code where every row that is wrong holds such a number. `found` is [B,G,h,S,W] or [B,..,S,W], as the oracle
// counts rows; what a law explains stays what it is.
void tell_not_finite(const oracles::Tensor& found, Departure& seen);

// `found` with the right numbers for those that are not finite; false where there are none.
[[nodiscard]] bool mend_not_finite(const oracles::Tensor& wanted, oracles::Tensor& found);

}  // namespace harness::checks
