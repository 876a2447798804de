// Rotary position embedding (golden README, "RoPE"): each pair c of a vector at position t turns by
// the angle a = (t / rope_scale) * rope_base^(-2c / d_k).
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/attention/config.h"
#include "oracles/tensor.h"

namespace oracles {

// Angle of pair c at position t.
double rope_angle(const AttentionConfig& config, std::int64_t t, std::int64_t c);

enum class Turn { forward, backward };

// Rotates z [.., R, d_k] in place; row r of the last but one dimension is at positions[r]. A
// rotation is orthogonal, so Turn::backward is its inverse and its gradient.
void rotate(Tensor& z,
            const AttentionConfig& config,
            const std::vector<std::int64_t>& positions,
            Turn turn);

}  // namespace oracles
