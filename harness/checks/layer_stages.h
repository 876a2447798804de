// What every stage of a recorded attention layer must give, by the oracle, from what was recorded of the stage's own inputs:
// so that a stage is wrong by itself and never because of what went before. Inputs that were not recorded are the oracle's.
// A NaN among the inputs gives NaNs where it enters, and those are not judged.
#pragma once

#include <memory>

#include "harness/checks/layer_record.h"
#include "oracles/attention/compress.h"
#include "oracles/laws/key_laws.h"

namespace harness::checks {

class LayerStages {
 public:
  // Refers to the record.
  explicit LayerStages(const LayerRecord& record);

  // A tensor as it was recorded, else as the oracle makes it of its own inputs.
  [[nodiscard]] const oracles::Tensor& input(const std::string& name) const;
  // What the stage that makes `name` must give: q, k_*, v_*, o_*, gate, y.
  [[nodiscard]] oracles::Tensor wanted(const std::string& name) const;

  // ---- parts, for the laws that explain a wrong stage ------------------------------------------------------------------
  // W x, heads apart: [B,H,R,D] of the queries, else [B,G,S,D]; not rotated.
  [[nodiscard]] oracles::Tensor projected(const std::string& weight) const;
  [[nodiscard]] oracles::Tensor compressed(oracles::PhiOf which,
                                           const oracles::Weights& weights) const;
  [[nodiscard]] oracles::Tensor learned_gate() const;
  // y for this gate and these branch outputs.
  [[nodiscard]] oracles::Tensor mixed(const oracles::Tensor& gate,
                                      const std::array<const oracles::Tensor*, 3>& o) const;
  // Queries, keys and values as they entered the branches.
  [[nodiscard]] oracles::AttendInputs attend_inputs() const;
  [[nodiscard]] const oracles::KeyLawOutputs& laws() const;

 private:
  [[nodiscard]] oracles::Tensor rotated(oracles::Tensor heads, bool of_queries) const;

  const LayerRecord& record_;
  oracles::Tensor x_BRE_;
  mutable std::map<std::string, oracles::Tensor> own_;  // what was not recorded
  mutable std::unique_ptr<oracles::KeyLawOutputs> laws_;
};

// Positions 0..count-1.
[[nodiscard]] std::vector<std::int64_t> first_positions(std::int64_t count);

// cmp, sel or win of o_cmp, k_sel, ...; "" for other tensors. The compressed branch before pooling is "raw".
[[nodiscard]] std::string suffix_of(const std::string& tensor);

}  // namespace harness::checks
