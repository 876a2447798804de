// Packed documents: a sequence of S tokens that is several documents, one after the other. To the attention each of them is a
// sequence of its own, whose positions start at 0: window, compressed tokens, blocks, scores and choice lie inside of it. Here they
// are attended to one by one; an implementation of seam `attention` may take them all at once (AttentionSeams::takes_documents).
// Shape letters as in nsa/seams/seams.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nsa/seams/attention_trace.h"
#include "nsa/seams/packed_documents.h"
#include "nsa/torch.h"

namespace nsa {

// The attention of one document [1,s,E], the `document`-th of its sequence.
using AttendDocument =
    std::function<AttentionTrace(const torch::Tensor& x_1SE, std::int64_t document)>;

// Attends to every document by itself and puts the results side by side, as if one call had made them: rows where the document
// lies in its sequence; compressed tokens of a sequence one after the other; blocks and their scores by the document's own
// numbers. Sequences and documents that have fewer of these are filled up with zeros. Throws: c10::Error where the lengths are
// not those of x.
[[nodiscard]] AttentionTrace attend_documents(const torch::Tensor& x_BSE,
                                              const PackedDocuments& packed,
                                              const AttendDocument& attend);

// The tokens as labels of the loss: at the first token of every document but a sequence's first stands the number that
// cross_entropy passes over, since no document predicts the next one.
[[nodiscard]] torch::Tensor labels_of_documents(const torch::Tensor& tokens_BS,
                                                const DocumentLengths& lengths);

}  // namespace nsa
