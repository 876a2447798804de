// Which recorded attention layers are looked at, and their files: all layers of one step. Of ranks that train, that is the
// first step in which a local gradient differs from the twin's, else one that the seed draws.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/checks/attention/accuracy/layer_departure.h"
#include "harness/checks/attention/packed/packed_record.h"
#include "harness/checks/attention/record/layer_record.h"
#include "harness/checks/result.h"

namespace harness::checks {

inline constexpr const char* kLayer = "attention_layer";

[[nodiscard]] bool runs_layers_alone(const Evidence& evidence);  // kind attention

[[nodiscard]] std::vector<LayerPlace> layers_to_judge(const Evidence& evidence, int rank);

[[nodiscard]] std::string text_of(const LayerPlace& at);  // "layer 3 of rank 0, step 1"

// How the case's records are read.
[[nodiscard]] ReadOptions read_options(const Evidence& evidence, int rank, int layer);

// A layer's record. What cannot be opened or read is missing in `result`, with the reason.
[[nodiscard]] std::optional<LayerRecord> open_record(const Evidence& evidence,
                                                     const LayerPlace& at,
                                                     const std::string& artefact,
                                                     ResultBuilder& result);

// The same of packed documents; only where is_packed().
[[nodiscard]] std::optional<PackedRecord> open_packed(const Evidence& evidence,
                                                      const LayerPlace& at,
                                                      ResultBuilder& result);
[[nodiscard]] bool is_packed(const Evidence& evidence);

}  // namespace harness::checks
