// The pooling phi: l tokens, every d, become one compressed token; `avg`, or `conv` with one weight for each channel and
// place. Keys and values in one launch, by blockIdx.z.
#pragma once

#include "nsa/kernels/common/sum_ref.h"

namespace nsa::kernels {

struct PoolTensor {
  TensorRef raw;     // [B,G,S,D]
  TensorRef pooled;  // [B,G,C,D]; backward: the gradient of it, unless `sums` has that
  TensorRef d_raw;
  const char* conv = nullptr;  // [D,l]; null: avg
  int chunks = 0;              // of 16 bytes in a row
  // Backward: the gradient of `pooled` as sums, from `column` on. All but the kernel that sums their segments up read the first
  // one.
  SumRef sums;
  int columns = 0;
  int column = 0;
  // Gradient of conv: partial sums [parts, D, l] and the result [D,l].
  float* conv_parts = nullptr;
  float* d_conv = nullptr;
};

struct PoolParams {
  Common common;
  PoolTensor tensors[2];
  int parts = 0;  // of the gradient of conv
};

}  // namespace nsa::kernels
