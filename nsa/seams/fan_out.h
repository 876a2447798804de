// One tensor that several operations use. Autograd adds the gradients of its consumers one by one in the tensor's own type:
// in bfloat16 and float16 that is one rounding for each consumer. Here they are added in float32 and rounded once.
#pragma once

#include <vector>

#include "nsa/torch.h"

namespace nsa {

// `x` for each of `consumers`, each of which uses one of them; in the order in which the gradients are added. Wider types, and
// tensors without a gradient, are handed out as they are.
[[nodiscard]] std::vector<torch::Tensor> fan_out(const torch::Tensor& x, std::int64_t consumers);

}  // namespace nsa
