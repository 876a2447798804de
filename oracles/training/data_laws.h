// Wrong tokens that are known to happen, and which of them a run trained on. Tokens are whole
// numbers, so a law fits where every token is its own: there is no tolerance.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/naming.h"
#include "oracles/training/data.h"

namespace oracles {

std::span<const Law> data_laws();

// The batch [R,S] under the law. None where the law has no meaning there: no other rank in a world
// of one, no earlier step before the first, no window to permute where there is no text. The config
// must be valid and the place one of the run's. Throws std::invalid_argument for an unknown name.
std::optional<IntTensor> batch_under(std::string_view law,
                                     const DataConfig& config,
                                     const BatchPlace& place,
                                     Text text = {});

struct RecordedBatch {
  BatchPlace place;
  IntTensor tokens;  // [R,S]
};

// Judges all batches that were recorded. Misfit::right counts tokens; places run through the batches
// in their order. A law fits where it gives every batch that is wrong; a batch of another shape is
// wrong under every law. A law is listed only where it differs from the right one on a wrong batch.
// For long_range a law "sharpness_other" is tried too: its detail says the interval of
// probabilities that would give these tokens.
Naming name_batches(const DataConfig& config,
                    std::span<const RecordedBatch> batches,
                    Text text = {});

}  // namespace oracles
