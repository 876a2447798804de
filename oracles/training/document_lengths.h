// How long the documents are that a sequence is packed of (docs/data.md, "Packed documents"): a pure function of the seed and of
// the sequence's number.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/training/data.h"

namespace oracles {

// Of each row of a batch; none where a sequence is one document.
// Throws std::invalid_argument where config.documents is not 1 to seq_len / 2.
std::vector<std::vector<std::int64_t>> document_lengths(const DataConfig& config,
                                                        const BatchPlace& place);

}  // namespace oracles
