// The gated sum of the branches, o = g_cmp o_cmp + g_sel o_sel + g_win o_win, and what its backward pass has for each row
// (query, head): x = d_o . o of every branch, which is the gradient of the row's gate.
#pragma once

#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/common/sum_ref.h"

namespace nsa::kernels {

struct CombineParams {
  Common common;
  GateRef gates;  // no values: one branch, gate 1
  int branch_count = 3;
  TensorRef branches[3];
  TensorRef o;
};

struct CombineGradientParams {
  Common common;
  GateRef gates;
  int branch_count = 3;
  TensorRef branches[3];
  TensorRef d_o;
  float* gate_delta[3] = {};  // [G,T,h,2]: g and g x; may be null
  GateRef d_gates;            // no values: not wanted
  TensorRef d_branches[3];    // no data: not wanted
};

// dk and dv of one branch from float32 sums: first[key] + second[key].
struct KeyResultParams {
  Common common;
  int stride = 1;   // d: keys are compressed tokens
  SumRef first[2];  // by blockIdx.z
  SumRef second[2];
  TensorRef d_k[2];
  TensorRef d_v[2];
  int k_columns = 0;  // of a row of sums
  int v_columns = 0;
};

}  // namespace nsa::kernels
