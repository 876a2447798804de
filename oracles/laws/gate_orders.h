// The three gates in a wrong order, in the gate itself or where it mixes the branches. Internal to
// the library.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "oracles/tensor.h"

namespace oracles {

struct GateOrder {
  std::string_view name;
  std::string_view about;
  std::array<std::size_t, 3> order;  // which of cmp, sel, win stands at each place
};

std::span<const GateOrder> gate_orders();
Tensor reordered(const Tensor& gate, const std::array<std::size_t, 3>& order);

}  // namespace oracles
