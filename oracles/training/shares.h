// What a micro-batch's mean loss counts in its optimiser step (docs/data.md, "Loss mask"). The loss of a step is the sum over all
// scored tokens of all its micro-batches and ranks, over their number N. A micro-batch of n scored tokens gives its mean; the
// ranks' gradients are averaged afterwards. So its backward starts from n world / N times the mean. And known mistakes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "oracles/naming.h"
#include "oracles/training/data.h"

namespace oracles {

// Scored tokens of a micro-batch, of all micro-batches of its rank, and of all ranks, in one step.
struct TokenCounts {
  std::int64_t own = 0;
  std::int64_t of_rank = 0;
  std::int64_t of_step = 0;
};

// REQUIRES: a place of the run.
TokenCounts token_counts(const DataConfig& config, const BatchPlace& place);

// own world / of_step; without a mask 1 / accumulate.
double share_of(const DataConfig& config, const BatchPlace& place);

// Those that average means over different numbers of tokens begin with "mean_of_".
std::span<const Law> share_laws();
// None where the law has no meaning: nothing to average, or no mask.
std::optional<double> share_under(std::string_view law,
                                  const DataConfig& config,
                                  const BatchPlace& place);
// Laws whose share is `found` within 2^-20, what a loss and its share in float32 are off by.
Naming name_share(double found, const DataConfig& config, const BatchPlace& place);

}  // namespace oracles
