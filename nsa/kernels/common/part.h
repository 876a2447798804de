// Parts: rows of results that wait in memory for a sum (output and dq of one selected block for one row). A value is a biased
// integer times the row's largest magnitude / the largest integer: 12 bits of it where elements are bf16 (the error is below
// 2^-12 of that largest value), 16 where they are fp16. Values lie in the order in which lanes hold them: lane t = 0..3 of four has
// of each 32 columns 8j + 2t + e (j = 0..3, e = 0, 1) eight values. A row of 16 bits has 16 bytes for each such eight. A row of 12
// has first the lower eight bits of each value, so that its eight values are 8 bytes; then the upper four: 4 bytes for each eight,
// value i and i + 4 in one byte, those of one lane together.
#pragma once

#include "nsa/kernels/common/device.h"

namespace nsa::kernels {

// x: of an output, the logarithm (base 2) of its softmax's denominator. y: the value of one step.
using PartScale = Pair;

// Integers of so many bits, up to kMost to either side; 2^23 more, they are the low bits of a float.
template <int kBits_>
struct Integers {
  static constexpr int kBits = kBits_;
  static constexpr float kMost = static_cast<float>((1 << (kBits - 1)) - 1);
  static constexpr float kBias = 8388608.0F + static_cast<float>(1 << (kBits - 1));
};
using Integers16 = Integers<16>;
// Of parts: as precise as the element type asks for.
template <class E>
struct PartIntegers;
template <>
struct PartIntegers<Bf16> : Integers<kNarrowPartBits> {};
template <>
struct PartIntegers<Fp16> : Integers<16> {};

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

// Byte kByte of four floats' bits.
template <int kByte>
NSA_DEVICE std::uint32_t pack_bytes(float a, float b, float c, float d) {
  constexpr std::uint32_t kTwo = kByte == 0 ? 0x0040 : 0x0051;
  return permute(permute(float_to_bits(a), float_to_bits(b), kTwo),
                 permute(float_to_bits(c), float_to_bits(d), kTwo),
                 0x5410);
}

// The row as a part, where it is `valid`. Gives the value of one step.
template <class E, int kColumns>
NSA_DEVICE float store_part(float (&acc)[kColumns / 8][4], int half, char* row, bool valid) {
  using As = PartIntegers<E>;
  constexpr int kGroups = kColumns / 32;
  const float step = count_steps<As, kColumns>(acc, half);
  const int t = lane_index() & 3;
  const int a = 2 * half;
  if constexpr (As::kBits == 16) {
    NSA_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      std::uint32_t words[4];
      NSA_UNROLL
      for (int j = 0; j < 4; ++j) {
        const auto& x = acc[group * 4 + j];
        words[j] = pack_steps(x[a], x[a + 1]);
      }
      if (valid) {
        store_global16_once(row + group * 64 + t * 16, {words[0], words[1], words[2], words[3]});
      }
    }
  } else {
    std::uint32_t upper[kGroups];
    NSA_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      const auto* x = acc + group * 4;
      const Words2 low{pack_bytes<0>(x[0][a], x[0][a + 1], x[1][a], x[1][a + 1]),
                       pack_bytes<0>(x[2][a], x[2][a + 1], x[3][a], x[3][a + 1])};
      upper[group] = pack_bytes<1>(x[0][a], x[0][a + 1], x[1][a], x[1][a + 1]) +
                     pack_bytes<1>(x[2][a], x[2][a + 1], x[3][a], x[3][a + 1]) * 16;
      if (valid) store_global8_once(row + group * 32 + t * 8, low);
    }
    char* to = row + kColumns + t * kGroups * 4;
    if (!valid) return step;
    if constexpr (kGroups == 4) {
      store_global16_once(to, {upper[0], upper[1], upper[2], upper[3]});
    } else if constexpr (kGroups == 2) {
      store_global8_once(to, {upper[0], upper[1]});
    } else {
      NSA_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        store_global4_once(to + 4 * group, upper[group]);
      }
    }
  }
  return step;
}

// x += weight * two steps of 16 bits.
template <class As>
NSA_DEVICE void add_two_steps(float* x, float weight, std::uint32_t word) {
  x[0] += weight * (bits_to_float(permute(word, 0x4b000000U, 0x7610)) - As::kBias);
  x[1] += weight * (bits_to_float(permute(word, 0x4b000000U, 0x7632)) - As::kBias);
}

// x += weight * eight steps of 16 bits.
NSA_DEVICE void add_steps(float (&x)[8], float weight, const Words4& words) {
  add_two_steps<Integers16>(x, weight, words.x);
  add_two_steps<Integers16>(x + 2, weight, words.y);
  add_two_steps<Integers16>(x + 4, weight, words.z);
  add_two_steps<Integers16>(x + 6, weight, words.w);
}

// Reads eight values of parts: the chunk-th eight of a row.
template <class E>
class PartReader {
 public:
  using As = PartIntegers<E>;
  static constexpr bool kWide = As::kBits == 16;

  struct Words {
    Words4 wide;
    Words2 low;
    std::uint32_t upper;
  };

  NSA_DEVICE PartReader(int columns, int chunk)
      : low_(chunk * (kWide ? 16 : 8)),
        upper_(columns + ((chunk & 3) * (columns / 32) + (chunk >> 2)) * 4) {}

  NSA_DEVICE Words load(const char* row) const {
    Words words{};
    if constexpr (kWide) {
      words.wide = load_global16_once(row + low_);
    } else {
      words.low = load_global8_once(row + low_);
      words.upper = load_global4_once(row + upper_);
    }
    return words;
  }
  // x += weight * eight steps.
  NSA_DEVICE static void add(float (&x)[8], float weight, const Words& words) {
    if constexpr (kWide) {
      add_steps(x, weight, words.wide);
    } else {
      const std::uint32_t first = words.upper & 0x0f0f0f0fU;
      const std::uint32_t second = (words.upper >> 4) & 0x0f0f0f0fU;
      add_two_steps<As>(x, weight, permute(words.low.x, first, 0x5140));
      add_two_steps<As>(x + 2, weight, permute(words.low.x, first, 0x7362));
      add_two_steps<As>(x + 4, weight, permute(words.low.y, second, 0x5140));
      add_two_steps<As>(x + 6, weight, permute(words.low.y, second, 0x7362));
    }
  }

 private:
  int low_;
  int upper_;
};

}  // namespace nsa::kernels
