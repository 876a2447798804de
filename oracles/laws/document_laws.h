// Known mistakes of attention over packed documents: a query attends across the border of its document. Each is computed from what
// is recorded of the whole sequence, in which queries and keys of a document are rotated by its own positions.
// Legend as in oracles/attention/attention.h; K keys of the whole sequence, documents one after the other.
#pragma once

#include <span>

#include "oracles/attention/documents.h"
#include "oracles/attention/keys.h"
#include "oracles/naming.h"

namespace oracles {

struct CrossingLaw {
  Law law;
  Branch branch;
};
// One for each branch.
std::span<const CrossingLaw> crossing_laws();
const CrossingLaw& crossing_law(Branch branch);

// A document's queries, and keys and values of all documents of its sequence.
struct CrossingInputs {
  const AttentionConfig& config;
  DocumentPlace at;
  const Tensor& q;               // [1,G,h,s,D] of the document
  const Tensor& keys;            // [1,G,K,D]
  const Tensor& values;          // [1,G,K,V]
  std::int64_t keys_before = 0;  // of K, those of the documents before this one
  const IntTensor& blocks;       // [1,G,s,n_sel] of the document; of branch sel
};
// The branch's output [1,G,h,s,V] under its law.
Tensor output_across_documents(Branch branch, const CrossingInputs& inputs);

}  // namespace oracles
