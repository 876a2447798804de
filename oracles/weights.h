// The weights of one attention layer by the names of the golden files (without "w."), and the
// shapes they must have.
#pragma once

#include <map>
#include <string>

#include "oracles/attention/config.h"
#include "oracles/tensor.h"

namespace oracles {

using Weights = std::map<std::string, Tensor>;

// Every weight of the variant that the config describes. REQUIRES: a valid config.
std::map<std::string, Shape> weight_shapes(const AttentionConfig& config);

// Throws std::invalid_argument where a weight is missing, unknown, misshapen or not finite.
void validate(const Weights& weights, const AttentionConfig& config);
// The same against shapes; `what` is how a message calls one.
void validate(const Weights& weights,
              const std::map<std::string, Shape>& shapes,
              const std::string& what);

}  // namespace oracles
