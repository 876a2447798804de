// Kernels of compress/params.h. One thread makes eight columns of one token.
#pragma once

#include "nsa/kernels/common/sums.cuh"
#include "nsa/kernels/compress/params.h"

namespace nsa::kernels {

inline constexpr int kPoolThreads = 128;
inline constexpr int kPoolAtOnce = 8;  // tokens whose loads are under way together

// A thread's place: token `index` of a sequence and a chunk of its columns.
struct PoolPlace {
  int sequence;
  int index;
  int chunk;
};
NSA_DEVICE PoolPlace pool_place(const Common& c, int chunks, int stride) {
  const std::int64_t at = static_cast<std::int64_t>(block_x()) * kPoolThreads + thread_index();
  const KeyPlace key = key_place(c, at / chunks, stride);
  return {key.sequence, key.key, static_cast<int>(at % chunks)};
}

template <class E>
NSA_DEVICE float conv_weight(const PoolTensor& x, int l, int column, int place) {
  if (x.conv == nullptr) return 1.0F / static_cast<float>(l);
  return read_element<E>(x.conv + (static_cast<std::int64_t>(column) * l + place) * 2);
}

template <class E>
NSA_KERNEL(kPoolThreads, 1)
pool(NSA_PARAMETER PoolParams p) {
  const Common& c = p.common;
  const PoolTensor& x = p.tensors[block_z()];
  const Geometry& g = c.geometry;
  const PoolPlace place = pool_place(c, x.chunks, g.d);
  if (place.index >= keys_of(c, place.sequence, g.d)) return;
  const int group = block_y();
  const char* raw = at_sequence(x.raw, c.sequences, place.sequence) + group * x.raw.head +
                    static_cast<std::int64_t>(place.index) * g.d * x.raw.position +
                    place.chunk * 16;
  Eight sum{};
  NSA_NO_UNROLL
  for (int first = 0; first < g.l; first += kPoolAtOnce) {
    Words4 words[kPoolAtOnce];
    NSA_UNROLL
    for (int k = 0; k < kPoolAtOnce; ++k) {
      words[k] = load_global16(raw + smaller(first + k, g.l - 1) * x.raw.position);
    }
    NSA_UNROLL
    for (int k = 0; k < kPoolAtOnce; ++k) {
      const int j = first + k;
      if (j >= g.l) break;
      const Eight v = unpacked<E>(words[k]);
      NSA_UNROLL
      for (int i = 0; i < 8; ++i) {
        // The mean is the sum times 1/l, so that l = 2^k rounds nothing twice.
        sum.x[i] +=
            x.conv == nullptr ? v.x[i] : v.x[i] * conv_weight<E>(x, g.l, place.chunk * 8 + i, j);
      }
    }
  }
  if (x.conv == nullptr) {
    NSA_UNROLL
    for (int i = 0; i < 8; ++i) sum.x[i] /= static_cast<float>(g.l);
  }
  store_eight<E>(at_sequence(x.pooled, c.sequences, place.sequence, g.d) + group * x.pooled.head +
                     place.index * x.pooled.position + place.chunk * 16,
                 sum);
}

// The segments of the compressed tokens' sums become one, in place: many threads read each of them afterwards.
NSA_KERNEL(kPoolThreads, 1)
sum_segments(NSA_PARAMETER PoolParams p) {
  const Common& c = p.common;
  const PoolTensor& x = p.tensors[0];
  const PoolPlace place = pool_place(c, x.columns / 8, c.geometry.d);
  if (place.index >= keys_of(c, place.sequence, c.geometry.d)) return;
  const int column = place.chunk * 8;
  Eight sum{};
  add_sums(sum, x.sums, c, block_y(), place.sequence, place.index, x.columns, column);
  const std::int64_t row = x.sums.row(c, block_y(), place.sequence, place.index);
  float* to = const_cast<float*>(x.sums.data) + row * x.columns + column;
  NSA_UNROLL
  for (int i = 0; i < 8; i += 2) store_pair(to + i, sum.x[i], sum.x[i + 1]);
}

// Gradient of compressed token i, eight columns.
template <class E>
NSA_DEVICE Eight
pooled_gradient(const Common& c, const PoolTensor& x, int group, int b, int i, int chunk) {
  if (x.sums.data == nullptr) {
    return load_eight<E>(at_sequence(x.pooled, c.sequences, b, c.geometry.d) +
                         group * x.pooled.head + i * x.pooled.position + chunk * 16);
  }
  Eight v{};
  add_sums(v, x.sums, c, group, b, i, x.columns, x.column + chunk * 8);
  return v;
}

// d_raw of token t: of the compressed tokens that cover it.
template <class E>
NSA_KERNEL(kPoolThreads, 8)
pool_gradient(NSA_PARAMETER PoolParams p) {
  const Common& c = p.common;
  const PoolTensor& x = p.tensors[block_z()];
  const Geometry& g = c.geometry;
  const PoolPlace place = pool_place(c, x.chunks, 1);
  const int t = place.index;
  if (t >= keys_of(c, place.sequence, 1)) return;
  const int group = block_y();
  const int last = smaller(t / g.d, keys_of(c, place.sequence, g.d) - 1);
  const int first = t < g.l ? 0 : (t - g.l) / g.d + 1;
  Eight sum{};
  for (int i = first; i <= last; ++i) {
    const Eight v = pooled_gradient<E>(c, x, group, place.sequence, i, place.chunk);
    NSA_UNROLL
    for (int k = 0; k < 8; ++k) {
      sum.x[k] += v.x[k] * conv_weight<E>(x, g.l, place.chunk * 8 + k, t - i * g.d);
    }
  }
  store_eight<E>(at_sequence(x.d_raw, c.sequences, place.sequence) + group * x.d_raw.head +
                     t * x.d_raw.position + place.chunk * 16,
                 sum);
}

// d_conv[column][j] = sum over compressed tokens i of their gradient times raw[i*d + j]; each block sums a part of the
// tokens of all sequences.
template <class E>
NSA_KERNEL(kPoolThreads, 1)
conv_gradient(NSA_PARAMETER PoolParams p) {
  const Common& c = p.common;
  const PoolTensor& x = p.tensors[block_z()];
  const Geometry& g = c.geometry;
  const int j = block_y();
  for (int chunk = thread_index(); chunk < x.chunks; chunk += kPoolThreads) {
    Eight sum{};
    for (int group = 0; group < c.groups; ++group) {
      for (int b = 0; b < c.sequences.count; ++b) {
        const int count = keys_of(c, b, g.d);
        const int share = static_cast<int>(ceil_div(count, p.parts));
        const int end = smaller(count, (block_x() + 1) * share);
        for (int i = block_x() * share; i < end; ++i) {
          const Eight v = pooled_gradient<E>(c, x, group, b, i, chunk);
          const Eight raw =
              load_eight<E>(at_sequence(x.raw, c.sequences, b) + group * x.raw.head +
                            (static_cast<std::int64_t>(i) * g.d + j) * x.raw.position + chunk * 16);
          NSA_UNROLL
          for (int k = 0; k < 8; ++k) sum.x[k] += v.x[k] * raw.x[k];
        }
      }
    }
    NSA_UNROLL
    for (int k = 0; k < 8; ++k) {
      x.conv_parts[(static_cast<std::int64_t>(block_x()) * x.chunks * 8 + chunk * 8 + k) * g.l +
                   j] = sum.x[k];
    }
  }
}

NSA_KERNEL(kPoolThreads, 1)
conv_sum(NSA_PARAMETER PoolParams p) {
  const PoolTensor& x = p.tensors[block_z()];
  const int count = x.chunks * 8 * p.common.geometry.l;
  const int at = block_x() * kPoolThreads + thread_index();
  if (at >= count) return;
  float sum = 0.0F;
  for (int part = 0; part < p.parts; ++part) {
    sum += x.conv_parts[static_cast<std::int64_t>(part) * count + at];
  }
  x.d_conv[at] = sum;
}

}  // namespace nsa::kernels
