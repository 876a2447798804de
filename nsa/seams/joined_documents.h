// From the traces of packed documents to a tensor of their whole batch.
#pragma once

#include <cstdint>
#include <vector>

#include "nsa/seams/attention_trace.h"
#include "nsa/seams/packed_documents.h"

namespace nsa {

// Zeros behind the last number of dimension `dim`, up to `size`.
[[nodiscard]] torch::Tensor filled_up(const torch::Tensor& tensor,
                                      std::int64_t dim,
                                      std::int64_t size);

// One tensor of all documents' traces (each of B = 1, in the order of `lengths`): those of a sequence side by side along `dim`,
// zeros behind the shorter sequences, the sequences one after the other in dimension 0. Undefined where the first trace lacks it.
[[nodiscard]] torch::Tensor joined_documents(const std::vector<AttentionTrace>& documents,
                                             const DocumentLengths& lengths,
                                             torch::Tensor AttentionTrace::*member,
                                             std::int64_t dim);

}  // namespace nsa
