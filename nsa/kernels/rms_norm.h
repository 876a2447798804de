// RMSNorm, y = x rsqrt(mean(x^2) + epsilon) weight, forward and backward. Shape letters: T rows, E width.
//
// Stated arithmetic: sums and products in float32; y, dx and the weight's gradient are rounded once. Sums are taken in an order
// that depends on shapes alone.
#pragma once

#include "nsa/kernels/attention.h"

namespace nsa::kernels {

struct RmsNorm {
  Element element = Element::bf16;
  std::int64_t rows = 0;  // T
  int width = 0;          // E: a multiple of 8, at most 2048
  float epsilon = 1e-6F;
};

// "" or why there is no kernel.
[[nodiscard]] std::string refusal(const RmsNorm& norm);

// x, y [T,E] and weight [E] of the element type, without gaps, aligned to 16 bytes; scale [T]: rsqrt(mean(x^2) + epsilon).
void rms_norm(
    const RmsNorm& norm, const void* x, const void* weight, void* y, float* scale, Stream stream);

// Bytes of float32 sums.
[[nodiscard]] std::size_t rms_norm_backward_workspace(const RmsNorm& norm);
void rms_norm_backward(const RmsNorm& norm,
                       const void* x,
                       const void* weight,
                       const float* scale,
                       const void* d_y,
                       void* d_x,
                       void* d_weight,
                       void* workspace,
                       Stream stream);

}  // namespace nsa::kernels
