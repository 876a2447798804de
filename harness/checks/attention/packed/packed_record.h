// One recorded attention layer over packed documents, as the oracle wants it: a record of each document, of which every position,
// compressed token and block is its own, and what they have in common. Legend as in layer_record.h.
#pragma once

#include <string>
#include <vector>

#include "harness/checks/attention/record/layer_record.h"
#include "oracles/attention/documents.h"

namespace harness::checks {

struct DocumentRecord {
  oracles::DocumentPlace at;
  std::int64_t compressed_before =
      0;               // compressed tokens of the documents before it in its sequence
  LayerRecord record;  // of batch 1; no gradient but dy
};

struct PackedRecord {
  LayerRecord shared;  // sizes, weights and their gradients (g.w.*), dx; no other tensor
  std::vector<DocumentRecord> documents;
};

// Throws: nsa::Error where a tensor is missing, or not of the shape that configuration and documents demand.
[[nodiscard]] PackedRecord read_packed_layer(const nsa::SafetensorsFile& file,
                                             const nsa::ModelConfig& model,
                                             const ReadOptions& options,
                                             const oracles::DocumentLengths& lengths);

// A tensor [1,X,.,W] of all documents of the sequence that `of` lies in, one after the other.
[[nodiscard]] oracles::Tensor of_sequence(const PackedRecord& packed,
                                          const DocumentRecord& of,
                                          const std::string& name);

}  // namespace harness::checks
