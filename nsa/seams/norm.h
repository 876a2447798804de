// Seam `norm`: the normalisation before attention, before the MLP and before the logits. Not a part of the attention layer, so
// it stands beside AttentionSeams.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nsa/seams/routes.h"
#include "nsa/torch.h"

namespace nsa {

// x [..,E], weight [E] -> x * rsqrt(mean(x^2) + 1e-6) * weight over the last dimension, in x's type; in float32 at least and
// rounded once.
using Norm = std::function<torch::Tensor(const torch::Tensor& x, const torch::Tensor& weight)>;

// The default first: `reference`, operation by operation; `fused`, LibTorch's own kernels where the device has some; `cuda`,
// the project's kernels, which refuse what they cannot do.
[[nodiscard]] std::vector<std::string> norm_implementations();

// The one that `route` asks for; it counts itself in `routes`, which outlives it. Layer -1: the norm before the logits.
// Throws: Error on a name that there is not.
[[nodiscard]] Norm make_norm(const std::map<std::string, std::string>& route,
                             Routes& routes,
                             int layer);

}  // namespace nsa
