// The rules behind stage_laws.h, one file for each kind of stage. Internal to the oracle.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "oracles/attention/activations.h"
#include "oracles/laws/stage_laws.h"

namespace oracles {

// One layer, computed right.
struct StageInputs {
  AttentionConfig config;
  Weights weights;
  Tensor x;
  int threads = 0;
  Activations forward;

  [[nodiscard]] Layer layer() const { return {config, weights, threads}; }
  [[nodiscard]] const Sizes& sizes() const { return forward.projections.sizes; }
};

struct StageRule {
  StageLaw law;
  std::function<Tensor(const StageInputs&, Stage)> output;
  // Empty: it makes sense for every layer.
  std::function<bool(const StageInputs&, Stage)> makes_sense;
};

std::vector<StageRule> projection_rules();   // q, raw keys and values
std::vector<StageRule> compression_rules();  // k_cmp, v_cmp
std::vector<StageRule> score_rules();        // p_grp, and blocks from such scores
std::vector<StageRule> choice_rules();       // blocks
std::vector<StageRule> attend_rules();       // o_cmp, o_sel, o_win
std::vector<StageRule> gate_rules();         // gate
std::vector<StageRule> mixing_rules();       // y

// What the oracle gives.
const Tensor& right_tensor(const StageInputs& in, Stage stage);
// Of every stage with keys or values of a branch, or outputs over them.
Branch branch_of(Stage stage);
// Queries of the rows, not rotated: [B,G,h,R,D]; raw keys of all tokens, not rotated: [B,G,S,D].
Tensor unrotated_queries(const StageInputs& in);
Tensor unrotated_keys(const StageInputs& in, Branch branch);

// The blocks that a query at t takes, in any order.
using Choice = std::vector<std::int64_t> (*)(const AttentionConfig&,
                                             std::int64_t t,
                                             std::span<const double> scores_N);
// The choice of every row [B,G,R,n_sel], as numbers: ascending, then -1.
Tensor chosen_blocks(const StageInputs& in, const Tensor& scores_BGRN, Choice choice);

}  // namespace oracles
