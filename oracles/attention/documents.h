// Attention over packed documents (docs/data.md, "Packed documents"): a sequence is several documents, one after the other, and
// the layer is a function of each of them alone. Positions, window, compressed tokens and blocks begin again in each.
// Legend as in attention.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "oracles/attention/attention.h"

namespace oracles {

// Of each sequence the lengths of its documents; empty: each sequence is one.
using DocumentLengths = std::vector<std::vector<std::int64_t>>;

// Throws std::invalid_argument where they are not those of [B,S]: numbers above 0, S in all.
void require_documents(const DocumentLengths& lengths, const Shape& tokens_BS);

// A document: the tokens [begin, begin + length) of sequence `row`.
struct DocumentPlace {
  std::int64_t row = 0;
  std::int64_t number = 0;  // in its sequence
  std::int64_t begin = 0;
  std::int64_t length = 0;
};
// In the order of the sequences. REQUIRES: lengths of [B,S].
std::vector<DocumentPlace> document_places(const DocumentLengths& lengths);

struct DocumentResult {
  Tensor y;          // [B,S,E]
  IntTensor blocks;  // [B,G,S,n_sel] the oracle's own choice, blocks by the document's own numbers
  Tensor margin;     // [B,G,S]
};

struct DocumentPass {
  Tensor dx;        // [B,S,E]
  Weights weights;  // summed over all documents
};

// x [B,S,E]; options.rows is empty. Both throw std::invalid_argument as attention() does.
DocumentResult attention_of_documents(const AttentionConfig& config,
                                      const Weights& weights,
                                      const Tensor& x,
                                      const DocumentLengths& lengths,
                                      const AttentionOptions& options = {});

// dy [B,S,E]
DocumentPass attention_of_documents_with_gradients(const AttentionConfig& config,
                                                   const Weights& weights,
                                                   const Tensor& x,
                                                   const Tensor& dy,
                                                   const DocumentLengths& lengths,
                                                   const AttentionOptions& options = {});

// The tokens of a document out of [B,X,S,W], as [1,X,length,W]; and back.
template <typename T>
Array<T> tokens_of(const Array<T>& all_BXSW, const DocumentPlace& at) {
  const Shape& shape = all_BXSW.shape;
  Array<T> part{{1, shape.at(1), at.length, shape.at(3)}, {}};
  for (std::int64_t list = 0; list < shape[1]; ++list) {
    const std::int64_t begin = ((at.row * shape[1] + list) * shape[2] + at.begin) * shape[3];
    const auto from = all_BXSW.data.begin() + begin;
    part.data.insert(part.data.end(), from, from + at.length * shape[3]);
  }
  return part;
}
template <typename T>
void put_tokens(const Array<T>& part, const DocumentPlace& at, Array<T>& all_BXSW) {
  const Shape& shape = all_BXSW.shape;
  const std::int64_t size = at.length * shape.at(3);
  for (std::int64_t list = 0; list < shape[1]; ++list) {
    const std::int64_t begin = ((at.row * shape[1] + list) * shape[2] + at.begin) * shape[3];
    const auto from = part.data.begin() + list * size;
    std::copy(from, from + size, all_BXSW.data.begin() + begin);
  }
}

}  // namespace oracles
