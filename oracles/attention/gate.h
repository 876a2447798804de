// The gate that mixes the branches (golden README, "Gate"), in the order cmp, sel, win.
// Legend: B batch, G groups, h heads of a group, R query rows, D = d_k, E = dim.
// group_softmax depends on the rotated queries and gives [B,G,R,3], shared by the group's heads;
// head_sigmoid depends on x and gives [B,G,h,R,3].
#pragma once

#include <array>

#include "oracles/attention/layer.h"
#include "oracles/tensor.h"

namespace oracles {

// What the gate sees.
struct GateInputs {
  const Tensor& q_BGhRD;  // rotated
  const Tensor& x_BRE;    // the rows' own inputs
};

// As it is computed: what is kept of it is rounded by whoever keeps it.
Tensor gate(const Layer& layer, const GateInputs& in);

// The same value for every token and head: what the golden files call y_cmp, y_sel, y_win.
Tensor constant_gate(const AttentionConfig& config,
                     const GateInputs& in,
                     const std::array<double, 3>& value);

// Adds to dq_BGhRD or dx_BRE, and puts the gradients of the gate's weights into `gradients`.
// `gate_value` is the gate as gate() computes it.
void add_gate_gradients(const Layer& layer,
                        const GateInputs& in,
                        const Tensor& gate_value,
                        const Tensor& dgate,
                        Tensor& dq_BGhRD,
                        Tensor& dx_BRE,
                        Weights& gradients);

// First of the three numbers of one head and row, in a gate or its gradient of either shape.
class GateIndex {
 public:
  GateIndex(const AttentionConfig& config, std::int64_t rows)
      : shared_(config.gate == Gate::group_softmax),
        heads_(config.heads_per_group()),
        rows_(rows) {}
  // `group` counts over batch and groups: b * G + g.
  [[nodiscard]] std::int64_t at(std::int64_t group, std::int64_t head, std::int64_t row) const {
    return 3 * ((shared_ ? group : group * heads_ + head) * rows_ + row);
  }

 private:
  bool shared_;
  std::int64_t heads_;
  std::int64_t rows_;
};

}  // namespace oracles
