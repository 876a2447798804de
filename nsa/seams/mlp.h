// Seam `mlp`: the second linear map of the MLP, and what it keeps for the way back.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nsa/seams/routes.h"
#include "nsa/torch.h"

namespace nsa {

// activated = silu(hidden) [..,F], weight [E,F] -> activated weight^T [..,E].
using MlpDown = std::function<torch::Tensor(
    const torch::Tensor& activated, const torch::Tensor& hidden, const torch::Tensor& weight)>;

// The default first: `reference` keeps `activated`; `lean` computes it again from `hidden`, which silu keeps anyway: the same
// numbers, a fifth of a step's memory less.
[[nodiscard]] std::vector<std::string> mlp_implementations();

// The one that `route` asks for; it counts itself in `routes`, which outlives it.
// Throws: Error on a name that there is not.
[[nodiscard]] MlpDown make_mlp_down(const std::map<std::string, std::string>& route,
                                    Routes& routes,
                                    int layer);

}  // namespace nsa
