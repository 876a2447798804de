// What two passes over the same layer are compared by, stage by stage.
#pragma once

#include <cstddef>
#include <map>

#include "nsa/base/safetensors.h"
#include "oracles/attention/stage_table.h"

namespace harness::checks {

// The row of an element of a tensor along the axis of its rows.
class RowAxis {
 public:
  RowAxis(const nsa::TensorView& view, int axis)
      : length_(static_cast<std::size_t>(view.shape.at(static_cast<std::size_t>(axis)))) {
    for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < view.shape.size(); ++i) {
      inner_ *= static_cast<std::size_t>(view.shape[i]);
    }
  }
  [[nodiscard]] int row(std::size_t element) const {
    return static_cast<int>(element / inner_ % length_);
  }

 private:
  std::size_t inner_ = 1;
  std::size_t length_ = 1;
};

[[nodiscard]] inline bool is_integer(const nsa::TensorView& view) {
  return view.dtype == nsa::DType::i64 || view.dtype == nsa::DType::i32;
}

// Where the change of a stage began: with one of its inputs, else with itself. `root_of` holds that of every changed tensor.
// What two passes are compared by has the same x in both.
[[nodiscard]] inline oracles::Stage root_of_stage(
    const oracles::StageRow& stage, const std::map<oracles::Stage, oracles::Stage>& root_of) {
  for (const auto& [changed, root] : root_of) {
    if (stage.made_of.holds(changed)) return root;
  }
  return stage.stage;
}

}  // namespace harness::checks
