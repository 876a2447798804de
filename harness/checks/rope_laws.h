// Wrong rotations that are known to happen, of the unrotated projection z [B,L,R,D] of queries or keys.
#pragma once

#include <string>
#include <vector>

#include "oracles/attention/config.h"
#include "oracles/tensor.h"

namespace harness::checks {

struct RopeLaw {
  std::string name;
  std::string about;
  oracles::Tensor output;
};

[[nodiscard]] std::vector<RopeLaw> rope_laws(const oracles::AttentionConfig& config,
                                             const std::vector<std::int64_t>& positions,
                                             const oracles::Tensor& z);

}  // namespace harness::checks
