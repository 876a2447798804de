// The tensors of a layer's forward in the order of computation, as a rank records them: what two passes over the same layer
// are compared by, stage by stage.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "nsa/base/safetensors.h"

namespace harness::checks {

struct ForwardStage {
  const char* tensor;
  const char* branch;
  const char* op;
  std::array<const char*, 4> inputs;  // which must have changed for this one to follow from it
  int row_axis;                       // -1: compressed tokens, in axis 2
};

inline constexpr std::array kForwardStages = {
    ForwardStage{"q", "", "rope", {}, 2},
    ForwardStage{"k_raw", "cmp", "rope", {}, 2},
    ForwardStage{"v_raw", "cmp", "project", {}, 2},
    ForwardStage{"k_sel", "sel", "rope", {}, 2},
    ForwardStage{"v_sel", "sel", "project", {}, 2},
    ForwardStage{"k_win", "win", "rope", {}, 2},
    ForwardStage{"v_win", "win", "project", {}, 2},
    ForwardStage{"k_cmp", "cmp", "compress", {"k_raw"}, -1},
    ForwardStage{"v_cmp", "cmp", "compress", {"v_raw"}, -1},
    ForwardStage{"p_grp", "", "score", {"q", "k_cmp"}, 2},
    ForwardStage{"blocks", "", "select", {"p_grp"}, 2},
    ForwardStage{"o_cmp", "cmp", "attend_cmp", {"q", "k_cmp", "v_cmp"}, 2},
    ForwardStage{"o_sel", "sel", "attend_sel", {"q", "k_sel", "v_sel", "blocks"}, 2},
    ForwardStage{"o_win", "win", "attend_win", {"q", "k_win", "v_win"}, 2},
    ForwardStage{"gate", "", "gate", {"q"}, 2},
    ForwardStage{"y", "", "attention", {"o_cmp", "o_sel", "o_win", "gate"}, 1},
};

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

// Where the change of stage i began: with one of its inputs, else with itself. `root_of` holds that of every changed tensor.
[[nodiscard]] inline std::size_t root_of_stage(std::size_t i,
                                               const std::map<std::string, std::size_t>& root_of) {
  for (const char* input : kForwardStages[i].inputs) {
    if (input == nullptr) continue;
    if (const auto at = root_of.find(input); at != root_of.end()) return at->second;
  }
  return i;
}

}  // namespace harness::checks
