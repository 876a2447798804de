// Parts: rows of results that wait in memory for a sum (output and dq of one selected block for one row). A value is a 16-bit
// integer, biased by 32768, times the row's largest magnitude / 32767: the error is below 2^-16 of that largest value, and a
// row costs half of float32. Values lie in the order in which lanes hold them: lane t = 0..3 of four has of each 32 columns
// 8j + 2t + e (j = 0..3, e = 0, 1) eight values, 16 bytes.
#pragma once

#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

// x: of an output, the logarithm (base 2) of its softmax's denominator. y: the value of one step.
using PartScale = Pair;

inline constexpr float kPartSteps = 32767.0F;
inline constexpr float kPartBias =
    8388608.0F + 32768.0F;  // 2^23: integers are the low bits of such a float

// Rows whose values all lie below are steps of this one: its reciprocal is finite.
inline constexpr float kSmallestPart = 1e-30F;

// The largest magnitude of one row's kColumns values, held by four lanes: acc[j][2*half], acc[j][2*half + 1].
template <int kColumns>
NSA_DEVICE float largest_of_row(const float (&acc)[kColumns / 8][4], int half) {
  // Two chains in the place of one: each instruction of a chain waits for the one before.
  float chain[2] = {kSmallestPart, kSmallestPart};
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    chain[j & 1] = largest_or_nan(
        chain[j & 1], largest_or_nan(fabsf(acc[j][2 * half]), fabsf(acc[j][2 * half + 1])));
  }
  float largest = largest_or_nan(chain[0], chain[1]);
  largest = largest_or_nan(largest, shuffle_xor(largest, 1));
  return largest_or_nan(largest, shuffle_xor(largest, 2));
}

// Two biased integers, the first in the lower half.
NSA_DEVICE std::uint32_t pack_steps(float low, float high) {
  return permute(float_to_bits(low), float_to_bits(high), 0x5410);
}

// The row's values become biased integers, as floats. Gives the value of one step.
template <int kColumns>
NSA_DEVICE float count_steps(float (&acc)[kColumns / 8][4], int half) {
  const float largest = largest_of_row<kColumns>(acc, half);
  const float inverse = kPartSteps * reciprocal_fast(largest);
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    NSA_UNROLL
    for (int e = 0; e < 2; ++e) {
      acc[j][2 * half + e] = acc[j][2 * half + e] * inverse + kPartBias;
    }
  }
  return largest * (1.0F / kPartSteps);  // NaN and infinity of a row stay what they are
}

// The row as a part, where it is `valid`. Gives the value of one step.
template <int kColumns>
NSA_DEVICE float store_part(float (&acc)[kColumns / 8][4], int half, char* row, bool valid) {
  const float step = count_steps<kColumns>(acc, half);
  const int t = lane_index() & 3;
  NSA_UNROLL
  for (int group = 0; group < kColumns / 32; ++group) {
    std::uint32_t words[4];
    NSA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const auto& x = acc[group * 4 + j];
      words[j] = pack_steps(x[2 * half], x[2 * half + 1]);
    }
    if (valid) {
      store_global16_once(row + group * 64 + t * 16, {words[0], words[1], words[2], words[3]});
    }
  }
  return step;
}

// x += weight * eight steps.
NSA_DEVICE void add_steps(float (&x)[8], float weight, const Words4& words) {
  const std::uint32_t w[4] = {words.x, words.y, words.z, words.w};
  NSA_UNROLL
  for (int j = 0; j < 4; ++j) {
    x[2 * j] += weight * (bits_to_float(permute(w[j], 0x4b000000U, 0x7610)) - kPartBias);
    x[2 * j + 1] += weight * (bits_to_float(permute(w[j], 0x4b000000U, 0x7632)) - kPartBias);
  }
}

}  // namespace nsa::kernels
