// Which recorded attention layers are looked at, and their files. Ranks that train: per rank the first layer whose output
// differs from the twin's, else the last one whose local gradients differ, else one that the seed draws. Kind attention: all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "harness/checks/attention/deviation.h"
#include "harness/checks/attention/layer_record.h"
#include "harness/checks/result.h"

namespace harness::checks {

inline constexpr const char* kLayer = "attention_layer";

[[nodiscard]] bool runs_layers_alone(const Evidence& evidence);  // kind attention

// The layers that a rank is judged by.
struct Look {
  std::vector<LayerPlace> first;  // judged in any case
  std::vector<LayerPlace> then;   // judged too where a forward of the first is wrong
};
[[nodiscard]] Look look_at(const Evidence& evidence, int rank);

[[nodiscard]] std::string text_of(const LayerPlace& at);  // "layer 3 of rank 0, step 1"

// How the case's records are read.
[[nodiscard]] ReadOptions read_options(const Evidence& evidence, int layer);

// A layer's record. What cannot be opened or read is missing in `result`, with the reason.
[[nodiscard]] std::optional<LayerRecord> open_record(const Evidence& evidence,
                                                     const LayerPlace& at,
                                                     const std::string& artefact,
                                                     ResultBuilder& result);

}  // namespace harness::checks
