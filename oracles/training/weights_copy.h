// In bf16 and fp16 the model's weights are the float32 masters, rounded to nearest after each step
// (docs/data.md): bit by bit, no tolerance. And the laws that name other weights.
#pragma once

#include <span>
#include <string_view>

#include "oracles/naming.h"
#include "oracles/numbers.h"

namespace oracles {

std::span<const Law> weight_laws();

// One parameter at one step, all of the same number of elements.
struct WeightRecord {
  Numbers master_before;  // float32
  Numbers master_after;
  Numbers weight_before;  // what the model computed with in this step
  Numbers weight_after;   // what it will compute with in the next one
};

// weight_after = rounded(master_after), number by number. All parameters of the model in one call,
// so that a law is named for all of them. Throws std::invalid_argument where sizes do not fit.
Naming name_weights(std::span<const WeightRecord> records, int threads = 0);

// A single weight under a law; for "weight_rounded_at_random" the neighbour that is not nearest.
// Throws std::invalid_argument for an unknown name.
double weight_under(std::string_view law,
                    double master_before,
                    double master_after,
                    double weight_before,
                    Number number);

}  // namespace oracles
