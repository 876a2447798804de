// The place of a failure: what a finding names and what a scenario may expect.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/facts.h"

namespace harness {

// Where. Only what is known is set; layers, ranks, heads and rows count from 0; steps from 1. `param` is the name without
// "blocks.N.", "attn." and ".weight" ("W_K_cmp").
struct Site {
  std::vector<int> layers;
  std::string branch;  // cmp, sel, win
  std::string param;
  std::string op;  // a seam's name, or optimizer, softmax, ...
  std::vector<int> heads;
  std::vector<int> rows;  // query positions
  std::vector<int> ranks;
  std::optional<std::int64_t> step;
  std::optional<int> bucket;
  std::optional<std::int64_t> sequence;
  std::string phase;
  Facts detail;

  bool operator==(const Site&) const = default;
  // "in step 3, phase backward"; "" where neither is known. Phase `data` of a step lasts from the end of the step before until its
  // forward begins. What a script does there may be its last words, and no such step may follow: "after step 2".
  [[nodiscard]] std::string when() const;
  [[nodiscard]] std::string text()
      const;  // "layer 3, branch sel, rank 1": for people; patterns derived from heads and rows
};
// "rank 1", "ranks 0-3", "rows ≡ 15 mod 16 (15..271)". REQUIRES: numbers.
[[nodiscard]] std::string numbers_text(const std::string& noun, const std::vector<int>& numbers);

void to_json(nlohmann::json& json, const Site& site);  // unset members are left out
void from_json(const nlohmann::json& json, Site& site);

}  // namespace harness
