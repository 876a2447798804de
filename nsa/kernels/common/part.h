// Parts: rows of results that wait in memory for a sum (output and dq of one selected block for one row). A value is a biased
// integer times one step, the row's largest magnitude / the largest integer, so that its error is half a step. Of 16 bits (wide)
// that is 1/65534 of the largest value, and a row costs half of float32; of 12 bits (narrow) it is 1/4094, about 2^-12.
// Narrow ones are for bf16 within the whole operation, where a part is one share of a gated sum. What the row had before:
// probabilities (for dq: gradients of logits) were rounded to bf16, each by up to 2^-8 of itself, which moves column c of the row
// by up to 2^-8 times the sum of |p_j v_jc|, which is at least |o_c|. In the largest column the narrow integer adds a sixteenth of
// that bound. And the result is rounded to bf16, which moves a value by up to between 2^-9 and 2^-8 of itself. Alone the branch
// keeps wide parts: where a row has one key its output is exact in bf16, and an exact result is held to 2^-13.
// Values lie in the order in which lanes hold them: lane t = 0..3 of four has of each 32 columns 8j + 2t + e (j = 0..3, e = 0, 1)
// eight values. A wide row has 16 bytes for each eight. A narrow one has first 8 bytes for each eight, then for each eight the last
// 4 of its 12.
#pragma once

#include <type_traits>

#include "nsa/kernels/common/device.h"
#include "nsa/kernels/common/params.h"

namespace nsa::kernels {

// x: of an output, the logarithm (base 2) of its softmax's denominator. y: the value of one step.
using PartScale = Pair;

// Integers of kBits bits, biased, up to kMost to either side; with 2^23 more they are the low bits of a float.
template <int kBits_>
struct Integers {
  static constexpr int kBits = kBits_;
  static constexpr float kMost = static_cast<float>((1 << (kBits - 1)) - 1);
  static constexpr float kBias = 8388608.0F + static_cast<float>(1 << (kBits - 1));
};
using Wide = Integers<16>;
using Narrow = Integers<kNarrowPartBits>;

// What parts of an element type can be: fp16 has no narrow ones.
template <class E>
using NarrowOf = std::conditional_t<std::is_same_v<E, Bf16>, Narrow, Wide>;

template <class As>
NSA_DEVICE constexpr int part_bytes(int columns) {
  return columns / 8 * As::kBits;
}

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
template <class As, int kColumns>
NSA_DEVICE float count_steps(float (&acc)[kColumns / 8][4], int half) {
  const float largest = largest_of_row<kColumns>(acc, half);
  const float inverse = As::kMost * reciprocal_fast(largest);
  NSA_UNROLL
  for (int j = 0; j < kColumns / 8; ++j) {
    NSA_UNROLL
    for (int e = 0; e < 2; ++e) {
      acc[j][2 * half + e] = acc[j][2 * half + e] * inverse + As::kBias;
    }
  }
  return largest * (1.0F / As::kMost);  // NaN and infinity of a row stay what they are
}

// Eight integers of 12 bits: four pairs of 24 bits, of which the last one fills the upper bytes of the others.
struct Words3 {
  std::uint32_t x;
  std::uint32_t y;
  std::uint32_t z;
};
NSA_DEVICE Words3 pack_narrow(const float (*x)[4], int a) {
  std::uint32_t pairs[4];
  NSA_UNROLL
  for (int j = 0; j < 4; ++j) {
    // What is above 24 bits is dropped.
    pairs[j] = float_to_bits(x[j][a]) + float_to_bits(x[j][a + 1]) * 4096U;
  }
  return {permute(pairs[0], pairs[3], 0x4210),
          permute(pairs[1], pairs[3], 0x5210),
          permute(pairs[2], pairs[3], 0x6210)};
}

// The row as a part, where it is `valid`. Gives the value of one step.
template <class As, int kColumns>
NSA_DEVICE float store_part(float (&acc)[kColumns / 8][4], int half, char* row, bool valid) {
  constexpr int kGroups = kColumns / 32;
  const float step = count_steps<As, kColumns>(acc, half);
  const int t = lane_index() & 3;
  NSA_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    const auto* x = acc + group * 4;
    if constexpr (As::kBits == 16) {
      std::uint32_t words[4];
      NSA_UNROLL
      for (int j = 0; j < 4; ++j) words[j] = pack_steps(x[j][2 * half], x[j][2 * half + 1]);
      if (valid) {
        store_global16_once(row + group * 64 + t * 16, {words[0], words[1], words[2], words[3]});
      }
    } else {
      const Words3 words = pack_narrow(x, 2 * half);
      if (valid) {
        store_global8_once(row + group * 32 + t * 8, {words.x, words.y});
        store_global4_once(row + kColumns + group * 16 + t * 4, words.z);
      }
    }
  }
  return step;
}

// x += weight * two steps of 16 bits.
NSA_DEVICE void add_two_steps(float* x, float weight, std::uint32_t word) {
  x[0] += weight * (bits_to_float(permute(word, 0x4b000000U, 0x7610)) - Wide::kBias);
  x[1] += weight * (bits_to_float(permute(word, 0x4b000000U, 0x7632)) - Wide::kBias);
}

// x += weight * eight steps of 16 bits.
NSA_DEVICE void add_steps(float (&x)[8], float weight, const Words4& words) {
  add_two_steps(x, weight, words.x);
  add_two_steps(x + 2, weight, words.y);
  add_two_steps(x + 4, weight, words.z);
  add_two_steps(x + 6, weight, words.w);
}

// x += weight * two steps of 12 bits; what is above them is not looked at.
NSA_DEVICE void add_two_narrow_steps(float* x, float weight, std::uint32_t pair) {
  constexpr std::uint32_t kMask = 0xfff;
  constexpr std::uint32_t kExponent = 0x4b000000U;
  x[0] += weight * (bits_to_float((pair & kMask) | kExponent) - Narrow::kBias);
  x[1] += weight * (bits_to_float(((pair >> 12) & kMask) | kExponent) - Narrow::kBias);
}

// Reads eight values of parts: the chunk-th eight of a row.
template <class As>
class PartReader {
 public:
  static constexpr bool kWide = As::kBits == 16;

  struct Words {
    Words4 wide;
    Words2 narrow;
    std::uint32_t rest;
  };

  NSA_DEVICE PartReader(int columns, int chunk)
      : at_(chunk * (kWide ? 16 : 8)), rest_at_(columns + chunk * 4) {}

  NSA_DEVICE Words load(const char* row) const {
    Words words{};
    if constexpr (kWide) {
      words.wide = load_global16_once(row + at_);
    } else {
      words.narrow = load_global8_once(row + at_);
      words.rest = load_global4_once(row + rest_at_);
    }
    return words;
  }
  // x += weight * eight steps.
  NSA_DEVICE static void add(float (&x)[8], float weight, const Words& words) {
    if constexpr (kWide) {
      add_steps(x, weight, words.wide);
    } else {
      const std::uint32_t upper = permute(words.narrow.x, words.narrow.y, 0x0073);
      add_two_narrow_steps(x, weight, words.narrow.x);
      add_two_narrow_steps(x + 2, weight, words.narrow.y);
      add_two_narrow_steps(x + 4, weight, words.rest);
      add_two_narrow_steps(x + 6, weight, permute(upper, words.rest, 0x0710));
    }
  }

 private:
  int at_;
  int rest_at_;
};

}  // namespace nsa::kernels
