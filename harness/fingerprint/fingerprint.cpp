// Fingerprints of the bytes of tensors, for Python (python/nsa_harness/fingerprints.py) over a C interface. python/nsa_harness/
// fingerprint.ptx computes the same on a card.
//
// The bytes are words of 64 bits (little-endian, the last one filled up with zeros), word j with the halves lo_j and hi_j.
// 1024 words are a block, the last block may be shorter. Key j has the halves A_j and B_j:
//   S_b = sum over the words j of block b of (lo_j + A_{j mod 1024}) * (hi_j + B_{j mod 1024})
//   H = mix(bytes) + sum over the blocks b of mix(S_b + (b + 1) * golden)
// A key is added modulo 2^32. Products and sums are modulo 2^64.
// In the same pass it adds up the squares of the numbers, and tells whether an infinity or a NaN is among them.
//
// Nothing here needs a C library, and nothing here may: the memory is that of a training.
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr u64 golden = 0x9E3779B97F4A7C15;
constexpr u64 seed = 0x4E53415F4841524E;
constexpr std::size_t block_words = 1024;
constexpr u64 block_bytes = 8 * block_words;
constexpr u64 chunk_blocks = 32;  // what one group of threads of a card does

// The finaliser of splitmix64.
constexpr u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Key j: A_j is its lower half, B_j its upper one.
struct Keys {
  alignas(64) u64 word[block_words];
};
constexpr Keys make_keys() {
  Keys keys{};
  for (std::size_t j = 0; j < block_words; ++j) keys.word[j] = mix(seed + (j + 1) * golden);
  return keys;
}
constexpr Keys keys = make_keys();

enum Type : u64 { kOther = 0, kFloat = 1, kDouble = 2, kHalf = 3, kBFloat16 = 4, kNotTaken = 5 };
enum Flag : u64 { kInfinity = 1, kNaN = 2, kMissing = 4 };

// Python writes arrays of these. `first`: the tensor's first chunk among those of all tensors.
struct Tensor {
  u64 data;
  u64 bytes;
  u64 type;
  u64 first;
};
struct Result {
  u64 fingerprint;
  u64 flags;
  double squares;
};
struct Summary {
  u64 digest;
  u64 flags;  // of all tensors that were taken
  u64 taken;
  double squares;
};

// What one block, or the part of one that is there, gives.
struct Block {
  u64 sum = 0;
  u64 flags = 0;
  double squares = 0;
};

template <class T>
T load(const u8* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

float as_float(u32 bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

double half(u16 bits) {
  const u32 exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 31) return as_float(0x7F800000u | (fraction << 13));
  if (exponent == 0) return static_cast<double>(fraction) / (1 << 24);
  return as_float(((exponent + 112) << 23) | (fraction << 13));  // the sign has no part in a square
}

template <Type type>
constexpr u64 width = type == kDouble  ? 8
                      : type == kFloat ? 4
                                       : 2;

template <Type type>
double number(const u8* at) {
  if constexpr (type == kFloat) return load<float>(at);
  if constexpr (type == kDouble) return load<double>(at);
  if constexpr (type == kHalf) return half(load<u16>(at));
  if constexpr (type == kBFloat16) return as_float(static_cast<u32>(load<u16>(at)) << 16);
  return 0;
}

template <Type type>
u64 flags_of(const u8* at, u64 bytes) {
  u64 infinities = 0, nans = 0;
  for (u64 i = 0; i + width<type> <= bytes; i += width<type>) {
    if constexpr (type == kDouble) {
      const u64 size = load<u64>(at + i) & 0x7FFFFFFFFFFFFFFF;
      infinities |= size == 0x7FF0000000000000;
      nans |= size > 0x7FF0000000000000;
    } else if constexpr (type == kFloat) {
      const u32 size = load<u32>(at + i) & 0x7FFFFFFF;
      infinities |= size == 0x7F800000;
      nans |= size > 0x7F800000;
    } else {
      const u32 size = load<u16>(at + i) & 0x7FFF, infinity = type == kHalf ? 0x7C00 : 0x7F80;
      infinities |= size == infinity;
      nans |= size > infinity;
    }
  }
  return (infinities ? static_cast<u64>(kInfinity) : 0) | (nans ? static_cast<u64>(kNaN) : 0);
}

// In float64: exact enough whatever the numbers are.
template <Type type>
double squares_of(const u8* at, u64 bytes) {
  double lanes[8] = {};
  u64 i = 0;
  for (; i + 8 * width<type> <= bytes; i += 8 * width<type>) {
    for (u64 lane = 0; lane < 8; ++lane) {
      const double value = number<type>(at + i + lane * width<type>);
      lanes[lane] += value * value;
    }
  }
  double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
               ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (; i + width<type> <= bytes; i += width<type>)
    sum += number<type>(at + i) * number<type>(at + i);
  return sum;
}

// Words `from` to the end, one by one.
u64 sum_of_words(const u8* at, u64 bytes, u64 from) {
  u64 sum = 0;
  for (u64 j = from; 8 * j < bytes; ++j) {
    u64 word = 0;
    if (8 * j + 8 <= bytes) {
      word = load<u64>(at + 8 * j);
    } else {
      for (u64 i = 8 * j; i < bytes; ++i) word |= static_cast<u64>(at[i]) << (8 * (i - 8 * j));
    }
    const u32 lo = static_cast<u32>(word) + static_cast<u32>(keys.word[j]);
    const u32 hi = static_cast<u32>(word >> 32) + static_cast<u32>(keys.word[j] >> 32);
    sum += static_cast<u64>(lo) * hi;
  }
  return sum;
}

template <Type type>
Block plain_block(const u8* at, u64 bytes) {
  Block block;
  block.sum = sum_of_words(at, bytes, 0);
  if constexpr (type != kOther) {
    block.squares = squares_of<type>(at, bytes);
    if (!(block.squares < 1e300)) block.flags = flags_of<type>(at, bytes);
  }
  return block;
}

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

double sum_of(__m256d four) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

double sum_of(__m256 eight) {
  return sum_of(_mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(eight)),
                              _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1))));
}

// The squares of up to 8 KiB are added up in float32. Where they leave the range in which that is exact to some 1e-6, and where an
// infinity or a NaN may be there, the block is looked at again; it is in the nearest cache by then.
template <Type type>
Block fast_block(const u8* at, u64 bytes) {
  constexpr u64 group = 128, ahead = 2048;
  __m256i sums[4] = {};
  __m256 singles[4] = {};
  __m256d doubles[4] = {};
  const u64 grouped = bytes / group * group;
  const u8* key = reinterpret_cast<const u8*>(keys.word);
  for (u64 i = 0; i < grouped; i += group) {
    // From the last cache this doubles the speed. What lies behind the tensor is asked for in vain, and nothing else happens.
    __builtin_prefetch(at + i + ahead);
    __builtin_prefetch(at + i + ahead + 64);
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const __m256i words =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i + 32 * part));
      const __m256i keyed = _mm256_add_epi32(
          words, _mm256_load_si256(reinterpret_cast<const __m256i*>(key + i + 32 * part)));
      sums[part] =
          _mm256_add_epi64(sums[part], _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32)));
      if constexpr (type == kFloat) {
        const __m256 values = _mm256_castsi256_ps(words);
        singles[part] = _mm256_fmadd_ps(values, values, singles[part]);
      } else if constexpr (type == kDouble) {
        const __m256d values = _mm256_castsi256_pd(words);
        doubles[part] = _mm256_fmadd_pd(values, values, doubles[part]);
      } else if constexpr (type == kHalf) {
        const __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(words)),
                     high = _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1));
        singles[part] = _mm256_fmadd_ps(high, high, _mm256_fmadd_ps(low, low, singles[part]));
      } else if constexpr (type == kBFloat16) {
        const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
        const __m256 odd = _mm256_castsi256_ps(
            _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xFFFF0000))));
        singles[part] = _mm256_fmadd_ps(odd, odd, _mm256_fmadd_ps(even, even, singles[part]));
      }
    }
  }
  alignas(32) u64 lanes[4];
  _mm256_store_si256(
      reinterpret_cast<__m256i*>(lanes),
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3])));
  Block block;
  block.sum = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  if (grouped < bytes) block.sum += sum_of_words(at, bytes, grouped / 8);
  if constexpr (type != kOther) {
    double squares = 0;
    if constexpr (type == kDouble) {
      squares = sum_of(_mm256_add_pd(_mm256_add_pd(doubles[0], doubles[1]),
                                     _mm256_add_pd(doubles[2], doubles[3])));
    } else {
      squares =
          (sum_of(singles[0]) + sum_of(singles[1])) + (sum_of(singles[2]) + sum_of(singles[3]));
    }
    // Nearly every block is whole, and the loop over what is left costs as much as the block.
    block.squares =
        grouped < bytes ? squares + squares_of<type>(at + grouped, bytes - grouped) : squares;
    if (!(block.squares > 1e-20 && block.squares < 1e30)) {
      block.flags = block.squares < 1e30 ? 0 : flags_of<type>(at, bytes);
      if (!block.flags) block.squares = squares_of<type>(at, bytes);
    }
  }
  return block;
}

#pragma GCC pop_options
#endif

template <Type type, class OfBlock>
Result result_of(const Tensor& tensor, OfBlock of_block) {
  const u8* data = reinterpret_cast<const u8*>(tensor.data);
  Result result{mix(tensor.bytes), 0, 0};
  for (u64 b = 0; b * block_bytes < tensor.bytes; ++b) {
    const u64 left = tensor.bytes - b * block_bytes;
    const Block block = of_block(data + b * block_bytes, left < block_bytes ? left : block_bytes);
    result.fingerprint += mix(block.sum + (b + 1) * golden);
    result.flags |= block.flags;
    result.squares += block.squares;
  }
  return result;
}

template <Type type>
Result result_of(const Tensor& tensor, bool fast) {
#if defined(__x86_64__)
  if (fast) return result_of<type>(tensor, fast_block<type>);
#endif
  (void)fast;
  return result_of<type>(tensor, plain_block<type>);
}

Result result_of(const Tensor& tensor, bool fast) {
  switch (tensor.type) {
    case kOther: return result_of<kOther>(tensor, fast);
    case kFloat: return result_of<kFloat>(tensor, fast);
    case kDouble: return result_of<kDouble>(tensor, fast);
    case kHalf: return result_of<kHalf>(tensor, fast);
    case kBFloat16: return result_of<kBFloat16>(tensor, fast);
    default: return {0, kMissing, 0};
  }
}

}  // namespace

#define NSA_EXPORT extern "C" __attribute__((visibility("default")))

// A tensor without a byte has one too, so that each chunk has a tensor.
static u64 chunks_of(const Tensor& tensor) {
  const u64 bytes = tensor.type == kNotTaken ? 0 : tensor.bytes;
  const u64 chunks = (bytes + chunk_blocks * block_bytes - 1) / (chunk_blocks * block_bytes);
  return chunks ? chunks : 1;
}

// The digest of a class of tensors whose first one has number `first`: sum of mix(fingerprint_i + (first + i + 1) * golden).
NSA_EXPORT void nsa_summary(const Result* results, u64 count, u64 first, Summary* summary) {
  *summary = {0, 0, 0, 0};
  for (u64 i = 0; i < count; ++i) {
    summary->digest += mix(results[i].fingerprint + (first + i + 1) * golden);
    if (results[i].flags & kMissing) continue;
    summary->flags |= results[i].flags;
    summary->taken += 1;
    summary->squares += results[i].squares;
  }
}

// `order`: the numbers of the tensors in the order in which they are read, those first that are in a cache; null: as they come.
// `plainly`: without vector instructions; only the sums of squares may differ, in their last digits.
NSA_EXPORT void nsa_fingerprints(const Tensor* tensors,
                                 u64 count,
                                 u64 first,
                                 const u64* order,
                                 Result* results,
                                 Summary* summary,
                                 u32 plainly) {
#if defined(__x86_64__)
  const bool fast = !plainly && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const unsigned before = _mm_getcsr();
  _mm_setcsr(
      before |
      0x8040);  // squares of tiny numbers are zero, as products with them take a hundred times as long on some processors
#else
  const bool fast = !plainly;
#endif
  for (u64 i = 0; i < count; ++i) {
    const u64 at = order ? order[i] : i;
    results[at] = result_of(tensors[at], fast);
  }
#if defined(__x86_64__)
  _mm_setcsr(before);
#endif
  nsa_summary(results, count, first, summary);
}

// Fills in `first` of each tensor; gives the number of chunks of all.
NSA_EXPORT u64 nsa_chunks(Tensor* tensors, u64 count) {
  u64 chunks = 0;
  for (u64 i = 0; i < count; ++i) {
    tensors[i].first = chunks;
    chunks += chunks_of(tensors[i]);
  }
  return chunks;
}

// What a card wrote of each chunk becomes the results of the tensors that are on it. `alone`: others are missing; else they stay.
NSA_EXPORT void nsa_collect(
    const Tensor* tensors, u64 count, const Result* chunks, Result* results, u32 alone) {
  for (u64 i = 0; i < count; ++i) {
    if (tensors[i].type == kNotTaken) {
      if (alone) results[i] = {0, kMissing, 0};
      continue;
    }
    Result result{mix(tensors[i].bytes), 0, 0};
    const u64 end = tensors[i].first + chunks_of(tensors[i]);
    for (u64 chunk = tensors[i].first; chunk < end; ++chunk) {
      result.fingerprint += chunks[chunk].fingerprint;
      result.flags |= chunks[chunk].flags;
      result.squares += chunks[chunk].squares;
    }
    results[i] = result;
  }
}
