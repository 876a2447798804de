// One recorded attention layer of one process and step, as the oracle wants it: configuration, input, weights, the blocks that
// were chosen, what came out and the gradients. Tensors are copied into doubles, exactly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"
#include "nsa/base/config.h"
#include "oracles/attention.h"
#include "oracles/score_bound.h"

namespace harness::checks {

[[nodiscard]] oracles::AttentionConfig oracle_config(const nsa::ModelConfig& model);

struct LayerRecord {
  oracles::AttentionConfig config;
  std::int64_t batch = 0;
  std::int64_t length = 0;
  double unit_roundoff = 0.0;
  oracles::Arithmetic arithmetic = oracles::Arithmetic::float32();
  oracles::Tensor x;  // [B,S,E]
  oracles::Weights weights;
  oracles::IntTensor blocks;  // [B,G,S,n]
  std::optional<oracles::Tensor> dy;
  // Everything floating that was recorded, by name, flat.
  std::map<std::string, std::vector<double>> tensors;

  [[nodiscard]] bool has(const std::string& name) const { return tensors.count(name) > 0; }
};

// Throws: nsa::Error where a tensor is missing, or not of the shape that the configuration demands.
[[nodiscard]] LayerRecord read_layer(const nsa::SafetensorsFile& file,
                                     const nsa::ModelConfig& model);

// The first row of blocks that is no list of blocks at all (not ascending, out of range, something after -1).
struct BadRow {
  std::int64_t batch = 0;
  std::int64_t group = 0;
  std::int64_t row = 0;
};
[[nodiscard]] std::vector<BadRow> malformed_rows(const LayerRecord& record);

}  // namespace harness::checks
