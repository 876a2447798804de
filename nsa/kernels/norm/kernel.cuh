// Kernels of norm/params.h. A warp has a row; a lane has the chunks lane, lane + 32, ... of it, at most kChunks.
#pragma once

#include "nsa/kernels/common/sums.cuh"
#include "nsa/kernels/norm/params.h"

namespace nsa::kernels {

NSA_DEVICE float warp_sum(float x) {
  NSA_UNROLL
  for (int distance = 16; distance >= 1; distance /= 2) x += shuffle_xor(x, distance);
  return x;
}

template <class E, int kChunks>
NSA_DEVICE void load_row(Eight (&row)[kChunks], const char* from, int chunks) {
  NSA_UNROLL
  for (int i = 0; i < kChunks; ++i) {
    const int chunk = lane_index() + 32 * i;
    row[i] = Eight{};
    if (chunk < chunks) row[i] = load_eight<E>(from + chunk * 16);
  }
}

template <class E, int kChunks>
NSA_DEVICE void store_row(const Eight (&row)[kChunks], char* to, int chunks) {
  NSA_UNROLL
  for (int i = 0; i < kChunks; ++i) {
    const int chunk = lane_index() + 32 * i;
    if (chunk < chunks) store_eight<E>(to + chunk * 16, row[i]);
  }
}

template <class E, int kChunks>
NSA_KERNEL(kNormThreads, 1)
norm_forward(NSA_PARAMETER NormParams p) {
  Eight weight[kChunks];
  load_row<E>(weight, p.weight, p.chunks);
  const float width = static_cast<float>(p.chunks * 8);
  for (std::int64_t row = static_cast<std::int64_t>(block_x()) * kNormWarps + warp_index();
       row < p.rows;
       row += static_cast<std::int64_t>(kNormBlocks) * kNormWarps) {
    const std::int64_t at = row * p.chunks * 16;
    Eight x[kChunks];
    load_row<E>(x, p.x + at, p.chunks);
    float squares = 0.0F;
    NSA_UNROLL
    for (int i = 0; i < kChunks; ++i) {
      NSA_UNROLL
      for (int k = 0; k < 8; ++k) squares += x[i].x[k] * x[i].x[k];
    }
    const float scale = rsqrt_float(warp_sum(squares) / width + p.epsilon);
    NSA_UNROLL
    for (int i = 0; i < kChunks; ++i) {
      NSA_UNROLL
      for (int k = 0; k < 8; ++k) x[i].x[k] = x[i].x[k] * scale * weight[i].x[k];
    }
    store_row<E>(x, p.out + at, p.chunks);
    if (lane_index() == 0) p.scale[row] = scale;
  }
}

// With g = dy weight and s the row's scale: dx = s (g - x s^2 mean(g x)); the weight's gradient is the sum of dy x s.
template <class E, int kChunks>
NSA_KERNEL(kNormThreads, kChunks <= 3 ? 2 : 1)
norm_backward(NSA_PARAMETER NormParams p) {
  NSA_SHARED(shared);
  Eight weight[kChunks];
  Eight sums[kChunks] = {};
  const int warp = warp_index();
  load_row<E>(weight, p.weight, p.chunks);
  const float width = static_cast<float>(p.chunks * 8);
  for (std::int64_t row = static_cast<std::int64_t>(block_x()) * kNormWarps + warp; row < p.rows;
       row += static_cast<std::int64_t>(kNormBlocks) * kNormWarps) {
    const std::int64_t at = row * p.chunks * 16;
    Eight x[kChunks];
    Eight d_y[kChunks];
    load_row<E>(x, p.x + at, p.chunks);
    load_row<E>(d_y, p.d_y + at, p.chunks);
    const float scale = p.scale[row];
    float dot = 0.0F;
    NSA_UNROLL
    for (int i = 0; i < kChunks; ++i) {
      NSA_UNROLL
      for (int k = 0; k < 8; ++k) {
        x[i].x[k] *= scale;
        sums[i].x[k] += d_y[i].x[k] * x[i].x[k];
        d_y[i].x[k] *= weight[i].x[k];
        dot += d_y[i].x[k] * x[i].x[k];
      }
    }
    const float mean = warp_sum(dot) / width;
    NSA_UNROLL
    for (int i = 0; i < kChunks; ++i) {
      NSA_UNROLL
      for (int k = 0; k < 8; ++k) x[i].x[k] = scale * (d_y[i].x[k] - x[i].x[k] * mean);
    }
    store_row<E>(x, p.out + at, p.chunks);
  }
  const std::uint32_t base = shared_address(shared);
  const int columns = p.chunks * 8;
  NSA_UNROLL
  for (int i = 0; i < kChunks; ++i) {
    const int chunk = lane_index() + 32 * i;
    if (chunk >= p.chunks) continue;
    NSA_UNROLL
    for (int k = 0; k < 8; ++k) {
      store_shared_float(base + 4 * (warp * columns + chunk * 8 + k), sums[i].x[k]);
    }
  }
  block_sync();
  for (int column = thread_index(); column < columns; column += kNormThreads) {
    float sum = 0.0F;
    for (int other = 0; other < kNormWarps; ++other) {
      sum += load_shared_float(base + 4 * (other * columns + column));
    }
    p.sums[static_cast<std::int64_t>(block_x()) * columns + column] = sum;
  }
}

// A warp adds up one column's sums of all blocks; 32 columns beside each other would read better, but there are few.
template <class E>
NSA_KERNEL(kNormThreads, 1)
norm_weight_gradient(NSA_PARAMETER NormParams p) {
  const int column = block_x() * kNormWarps + warp_index();
  const int columns = p.chunks * 8;
  if (column >= columns) return;
  float sum = 0.0F;
  for (int block = lane_index(); block < kNormBlocks; block += 32) {
    sum += p.sums[static_cast<std::int64_t>(block) * columns + column];
  }
  sum = warp_sum(sum);
  if (lane_index() != 0) return;
  reinterpret_cast<std::uint16_t*>(p.d_weight)[column] =
      static_cast<std::uint16_t>(pack<E>(sum, 0.0F));
}

}  // namespace nsa::kernels
