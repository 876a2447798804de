// The wrong laws that can stand for each stage of an attention layer: other masks, rotations, weights, heads, gates. Each is
// computed from the recorded inputs of the stage.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/checks/law_match.h"
#include "harness/checks/layer_stages.h"

namespace harness::checks {

class StageLaws {
 public:
  // Refers to its arguments.
  StageLaws(const LayerRecord& record, const LayerStages& stages)
      : record_(record), stages_(stages) {}

  // The law under which the vectors `wrong` of `tensor` are what was recorded.
  [[nodiscard]] std::optional<Law> explain(const std::string& tensor,
                                           const oracles::Tensor& wanted,
                                           const std::vector<std::size_t>& wrong,
                                           double relative_limit) const;

 private:
  void consider_rotations(const std::string& weight, Explanation& found) const;
  void consider_shared(const std::string& tensor, Explanation& found) const;
  void consider_layouts(const oracles::Tensor& wanted, Explanation& found) const;
  void consider_phi(const std::string& tensor, Explanation& found) const;
  void consider_keys(oracles::Branch branch, Explanation& found) const;
  void consider_other_inputs(oracles::Branch branch, Explanation& found) const;
  void consider_gates(const oracles::Tensor& wanted, Explanation& found) const;
  void consider_mixes(Explanation& found) const;

  const LayerRecord& record_;
  const LayerStages& stages_;
};

}  // namespace harness::checks
