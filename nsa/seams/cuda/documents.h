// Packed documents as the kernels have them: one row of all tokens, document after document. Shape letters as in
// nsa/seams/seams.h; T tokens of the batch.
#pragma once

#include "nsa/seams/cuda/operands.h"

namespace nsa::cuda {

// Each document a sequence of the problem.
void put_documents(const PackedDocuments& documents, kernels::Problem& problem);

// From the trace of the row (B = 1, S = T) to that of the batch that x_BSE is, as nsa/model/packed_attention.h describes it, each
// document's own with it. Views, but for the compressed tokens, between which the kernels leave gaps.
[[nodiscard]] AttentionTrace trace_of_batch(const AttentionTrace& row,
                                            const PackedDocuments& documents,
                                            const ModelConfig& config,
                                            const Tensor& x_BSE);

}  // namespace nsa::cuda
