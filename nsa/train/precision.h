// What a precision of training means: the dtype of the model's weights, activations and gradients, whether float32
// masters stand behind them, and whether the loss is scaled.
//   fp64, fp32            the optimiser works on the weights themselves
//   bf16, fp16            float32 masters and AdamW state (Micikevicius et al., arXiv 1710.03740); fp16 with dynamic loss scaling
//   bf16_autocast         float32 weights; the forward under LibTorch's autocast, which takes what it can to bfloat16
//   bf16_pure, fp16_pure  weights and AdamW state in that dtype alone: a historic fault, since updates below half a ulp are lost
#pragma once

#include "nsa/base/config.h"
#include "nsa/torch.h"

namespace nsa {

[[nodiscard]] torch::Dtype dtype_of(Precision precision);

[[nodiscard]] inline bool has_masters(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

[[nodiscard]] inline bool scales_loss(Precision precision) {
  return precision == Precision::fp16;
}

[[nodiscard]] inline bool autocasts(Precision precision) {
  return precision == Precision::bf16_autocast;
}

}  // namespace nsa
