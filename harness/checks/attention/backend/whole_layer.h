// Implementations of seam `attention` that compute a whole layer by themselves: no other seam of the attention runs then, but for
// the pooling by an MLP and the single tokens behind a prompt.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace harness::checks {

inline constexpr std::array kWholeLayers = {"cuda", "cuda_mma"};

[[nodiscard]] inline bool computes_whole_layer(const std::map<std::string, std::string>& route) {
  const auto asked = route.find("attention");
  return asked != route.end() &&
         std::find(kWholeLayers.begin(), kWholeLayers.end(), asked->second) != kWholeLayers.end();
}

}  // namespace harness::checks
