// The end of the selected branch: the parts of single blocks (common/part.h) and the share of the dense forced blocks are summed
// up for each row (query, head). Forward also the branches are mixed by their gates.
#pragma once

#include "nsa/kernels/attend/params.h"

namespace nsa::kernels {

// The rows of queries [from, to) of all sequences, of the groups that `parts` names. A row's dense share lies in `dense` as steps
// in the order of columns.
struct MergeRows {
  Common common;
  int from = 0;
  int to = 0;
  int queries = 1;    // of a block: at most kMergeRows rows
  PartBuffers parts;  // no values: there are none
  int columns = 0;    // of a part
  TensorRef blocks;   // int32 [B,G,S,n]
  bool forced_apart = false;
  TensorRef dense;  // may be the tensor that the results go to
};

struct MergeOutputsParams {
  MergeRows rows;
  const float* dense_scales = nullptr;  // [G,T,h,2] as PartScale; null: there is no dense share
  TensorRef o;                          // of the branch; data may be null
  float* lse = nullptr;                 // [G,T,h]; may be null
  // o = gate_cmp o_cmp + gate_sel o + gate_win o_win; no data: nothing is mixed.
  TensorRef mixed;
  TensorRef o_cmp;
  TensorRef o_win;
  GateRef gates;
};

struct MergeGradientsParams {
  MergeRows rows;
  const float* dense_steps = nullptr;  // [G,T,h]; null: there is no dense share
  TensorRef d_q;
};

inline constexpr int kMergeRows = 64;  // of a block

}  // namespace nsa::kernels
