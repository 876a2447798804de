// What the metadata of a golden file (tests/golden/README.md) says of it: level and configuration. From strangers: every
// refusal names the key, what was found and what was wanted.
#pragma once

#include <optional>
#include <string>

#include "nsa/base/config.h"

namespace harness {

enum class GoldenLevel { attention, lm, train };

[[nodiscard]] const char* name_of(GoldenLevel level);
// Throws: nsa::Error, `where` in front.
[[nodiscard]] GoldenLevel golden_level_named(const std::string& name, const std::string& where);

struct GoldenConfig {
  nsa::ModelConfig model;                     // valid; n_layers 1 at the attention level
  std::optional<nsa::OptimizerConfig> train;  // at the train level, and only there

  bool operator==(const GoldenConfig&) const = default;
};

// The keys that the level needs must be there, those with a default may; keys that only other levels have are read and not
// used; others are refused. Throws: nsa::Error, `where` in front.
[[nodiscard]] GoldenConfig parse_golden_config(const std::string& text,
                                               GoldenLevel level,
                                               const std::string& where);

// The same as JSON, defaults filled in.
[[nodiscard]] std::string golden_config_text(const GoldenConfig& config, GoldenLevel level);

}  // namespace harness
