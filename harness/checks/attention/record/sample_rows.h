// Which query rows of a long sequence are judged: the edges of every law (windows, compressed tokens, blocks, the choice that
// begins to drop), the rows whose gradient counts, and rows that the seed draws.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/attention/config.h"

namespace harness::checks {

// Fixed for a seed, and unlike for two that are next to each other.
[[nodiscard]] std::uint64_t mixed(std::uint64_t value);

inline constexpr std::int64_t kFewestRows = 512;  // of a sample

// Ascending. `wanted` are rows that belong to the sample in any case.
[[nodiscard]] std::vector<std::int64_t> sample_rows(const oracles::AttentionConfig& config,
                                                    std::int64_t length,
                                                    std::uint64_t seed,
                                                    const std::vector<std::int64_t>& wanted);

}  // namespace harness::checks
