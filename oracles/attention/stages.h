// The stages of one attention layer, each computed from what was recorded of its own inputs, so
// that what is wrong in one stage is not carried into the next. Inputs that were not recorded are
// what the oracle makes of theirs. A NaN among the inputs gives NaNs where it enters. Legend as in
// attention.h; n heads of a projection, H or G; W its width.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/attention/attention.h"
#include "oracles/attention/layer.h"
#include "oracles/attention/selection.h"
#include "oracles/attention/stage_table.h"

namespace oracles {

// The branch of a stage that holds keys or values of a branch, or outputs over them.
Branch branch_of(Stage stage);
// The keys that a branch attends to, their values, and what comes out.
Stage key_stage(Branch branch);
Stage value_stage(Branch branch);
Stage output_stage(Branch branch);
// Has one row for each query, not one for each token or compressed token.
bool is_of_queries(Stage stage);
// `rows` of `sizes` are R.
Shape shape_of(Stage stage, const AttentionConfig& config, const Sizes& sizes);

class Stages {
 public:
  // As attention(): options.rows are R, options.replay are the blocks that o_sel attends to, and
  // options.gate_override is the gate that is wanted. Refers to config, weights and x.
  // Throws std::invalid_argument where they do not fit each other. Values need not be finite.
  Stages(const AttentionConfig& config,
         const Weights& weights,
         const Tensor& x,
         AttentionOptions options = {});
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;

  // The stages that follow get this tensor. Refers to it. REQUIRES: nothing was computed yet.
  // Throws std::invalid_argument where its shape is not that of the stage. Not for blocks: those
  // are replayed.
  void record(Stage stage, const Tensor& tensor);

  // As it was recorded, else right(stage). Computed once.
  [[nodiscard]] const Tensor& input(Stage stage) const;
  // What the stage must give from its inputs.
  [[nodiscard]] Tensor right(Stage stage) const;
  [[nodiscard]] Shape shape_of(Stage stage) const {
    return oracles::shape_of(stage, config(), sizes_);
  }

  [[nodiscard]] const AttentionConfig& config() const { return layer_.config; }
  [[nodiscard]] const Weights& weights() const { return layer_.weights; }
  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] const std::vector<std::int64_t>& rows() const { return rows_; }
  [[nodiscard]] const AttentionOptions& options() const { return options_; }
  [[nodiscard]] bool has_all_rows() const { return sizes_.rows == sizes_.length; }
  [[nodiscard]] const Tensor& x() const { return x_; }
  [[nodiscard]] const Tensor& x_of_rows() const { return x_BRE_ ? *x_BRE_ : x_; }
  [[nodiscard]] std::vector<std::int64_t> token_positions() const;

  // The same layer at some of its rows, by their places in rows(). Refers to this one.
  [[nodiscard]] std::unique_ptr<const Stages> at_rows(const std::vector<std::size_t>& places) const;

  // ---- parts ---------------------------------------------------------------------------------
  // W x, heads apart, not rotated: [B,H,R,D] for q, else [B,G,S,W].
  [[nodiscard]] Tensor projected(Stage stage) const;
  // What is listed for o_sel: replayed, or chosen from the scores.
  [[nodiscard]] const IntTensor& attended() const;
  [[nodiscard]] Query query(Branch branch, std::int64_t group, std::int64_t row) const;
  // One for each batch and group, b * G + g.
  [[nodiscard]] const std::vector<KeyBank>& banks(Branch branch) const;
  [[nodiscard]] Tensor learned_gate() const;
  // The same before it is kept: what its softmax or sigmoid gives, and its backward uses.
  [[nodiscard]] Tensor gate_as_computed() const;
  // Margins of the choice from the scores, [B,G,R]; see Selection in selection.h.
  [[nodiscard]] Tensor margins() const;
  // gate * o summed over the branches, heads still apart: [B,H,R,V].
  [[nodiscard]] Tensor mixed(const Tensor& gate) const;
  // y of such a sum.
  [[nodiscard]] Tensor put_out(const Tensor& heads_BHRV) const;

 private:
  [[nodiscard]] const Tensor* known_input(Stage stage) const;
  [[nodiscard]] Tensor scores() const;
  [[nodiscard]] Tensor chosen() const;
  [[nodiscard]] Selection selection(std::int64_t place) const;
  [[nodiscard]] Tensor attended_over(Branch branch) const;

  Layer layer_;
  const Tensor& x_;
  AttentionOptions options_;
  std::vector<std::int64_t> rows_;
  Sizes sizes_;
  std::optional<Tensor> x_BRE_;
  std::map<Stage, const Tensor*> recorded_;
  mutable std::map<Stage, Tensor> own_;  // what was not recorded
  mutable std::optional<IntTensor> attended_;
  mutable std::map<Branch, std::vector<KeyBank>> banks_;
};

// The weight that a projected stage comes from: "W_K_sel.weight".
std::string weight_of(Stage stage);
// Rows of [.., R, W] at some places of R.
Tensor rows_at(const Tensor& tensor, const std::vector<std::size_t>& places);

}  // namespace oracles
