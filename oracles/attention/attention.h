// One layer of Native Sparse Attention in float64: forward and a hand-derived backward, straight
// from the equations of the golden files' README. Shares no code with any implementation it judges.
// Same inputs, same bits: neither threads nor vector width nor the other rows asked for matter.
// Legend: B batch, S tokens, R query rows, E = dim, G groups, h heads of a group, D = d_k, V = d_v,
// C compressed tokens, N selection blocks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "oracles/attention/config.h"
#include "oracles/attention/kept.h"
#include "oracles/attention/stage_table.h"
#include "oracles/tensor.h"
#include "oracles/weights.h"

namespace oracles {

struct AttentionOptions {
  // Query positions, strictly ascending; empty means all. Keys always come from the whole sequence.
  std::vector<std::int64_t> rows = {};
  // Blocks [B,G,R,n_sel] to attend to instead of the oracle's own choice: strictly ascending, then
  // -1. Tokens after the query stay masked. The oracle's choice is reported all the same.
  std::optional<IntTensor> replay = {};
  // A gate (cmp, sel, win) for every token and head instead of the learned one; a constant, so that
  // no gradient reaches the gate's weights.
  std::optional<std::array<double, 3>> gate_override = {};
  // 0: as many as the hardware has.
  int threads = 0;
  // What is rounded on the way: nothing, unless this is to be another computation than the oracle.
  Kept kept = {};
};

// What the golden files call by the same names.
struct AttentionResult {
  std::vector<std::int64_t> rows;  // query positions of R
  Tensor q;                        // [B,G,h,R,D] rotated
  Tensor k_cmp;                    // [B,G,C,D]
  Tensor v_cmp;                    // [B,G,C,V]
  Tensor p_grp;                    // [B,G,R,N] block scores
  IntTensor blocks;                // [B,G,R,n_sel] the oracle's own choice, ascending, then -1
  Tensor margin;                   // [B,G,R] of that choice; see Selection in selection.h
  Tensor o_cmp;                    // [B,G,h,R,V] branch outputs before the gate
  Tensor o_sel;
  Tensor o_win;
  Tensor gate;  // [B,G,R,3] or, for head_sigmoid, [B,G,h,R,3]
  Tensor y;     // [B,R,E]
};

// The tensor of a stage; nullptr where the result has none. (The choice is `blocks`.)
const Tensor* stage_in(const AttentionResult& result, Stage stage);

// Gradients of sum(y * dy), with respect to what the name says. Nothing flows through the choice of
// blocks. Weights without influence have zeros.
struct AttentionGradients {
  Tensor x;         // [B,S,E]
  Weights weights;  // by the weights' names
  Tensor q;         // [B,G,h,R,D] rotated queries, all branches and the gate together
  Tensor k_cmp;
  Tensor v_cmp;
  Tensor o_cmp;
  Tensor o_sel;
  Tensor o_win;
  Tensor gate;
};

struct AttentionPass {
  AttentionResult result;
  AttentionGradients gradients;
};

// x [B,S,E]. Both throw std::invalid_argument where config, weights, x, dy or options do not fit
// each other or hold a NaN or an infinity.
AttentionResult attention(const AttentionConfig& config,
                          const Weights& weights,
                          const Tensor& x,
                          const AttentionOptions& options = {});

// dy [B,R,E].
AttentionPass attention_with_gradients(const AttentionConfig& config,
                                       const Weights& weights,
                                       const Tensor& x,
                                       const Tensor& dy,
                                       const AttentionOptions& options = {});

}  // namespace oracles
