// What is made of what, inside a layer: which tensors a wrong one makes wrong, and which ones its gradient passes. Pure.
#pragma once

#include <string>

#include "harness/scenario/site.h"

namespace harness {

// A tensor of a layer is named after the operation that makes it, with its branch where several branches have one: "rope/sel".
using FlowNode = std::string;

// The one that a site names, by its seam, operation or parameter; "" where it names a layer and no more.
[[nodiscard]] FlowNode node_of(const Site& site);

enum class Of { values, gradients };

// Is `to` made of `from`, or the same? Of gradients: does that of `to` come back to `from`? None passes the choice of blocks.
[[nodiscard]] bool flows(const FlowNode& from, const FlowNode& to, Of what);

}  // namespace harness
