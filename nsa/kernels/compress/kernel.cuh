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

// Of a convolution.
template <class E>
NSA_DEVICE float conv_weight(const PoolTensor& x, int l, int column, int place) {
  return read_element<E>(x.conv + (static_cast<std::int64_t>(column) * l + place) * 2);
}

// Runs `use(j, eight columns)` for the l tokens from `raw` on.
template <class E, class Use>
NSA_DEVICE void each_token(const char* raw, std::int64_t position, int l, const Use& use) {
  int first = 0;
  NSA_NO_UNROLL
  for (; first + kPoolAtOnce <= l; first += kPoolAtOnce) {
    // Nothing is asked between loads and uses: the compiler would move each load to its use.
    Words4 words[kPoolAtOnce];
    NSA_UNROLL
    for (int k = 0; k < kPoolAtOnce; ++k) words[k] = load_global16(raw + (first + k) * position);
    NSA_UNROLL
    for (int k = 0; k < kPoolAtOnce; ++k) use(first + k, unpacked<E>(words[k]));
  }
  for (; first < l; ++first) use(first, load_eight<E>(raw + first * position));
}

template <class E>
NSA_KERNEL(kPoolThreads, 8)
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
  if (x.conv == nullptr) {
    each_token<E>(raw, x.raw.position, g.l, [&](int, const Eight& v) {
      NSA_UNROLL
      for (int i = 0; i < 8; ++i) sum.x[i] += v.x[i];
    });
    // The mean is the sum times 1/l, so that l = 2^k rounds nothing twice.
    const float weight = 1.0F / static_cast<float>(g.l);
    NSA_UNROLL
    for (int i = 0; i < 8; ++i) sum.x[i] *= weight;
  } else {
    each_token<E>(raw, x.raw.position, g.l, [&](int j, const Eight& v) {
      NSA_UNROLL
      for (int i = 0; i < 8; ++i) {
        sum.x[i] += v.x[i] * conv_weight<E>(x, g.l, place.chunk * 8 + i, j);
      }
    });
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
  KeySums(x.sums, c, block_y(), place.sequence, place.index, x.columns).add_to(sum, column);
  const std::int64_t row = x.sums.row(c, block_y(), place.sequence, place.index);
  float* to = const_cast<float*>(x.sums.data) + row * x.columns + column;
  NSA_UNROLL
  for (int i = 0; i < 8; i += 2) store_pair(to + i, sum.x[i], sum.x[i + 1]);
}

// Gradients of a sequence's compressed tokens, eight columns: sums that are each in one segment, or elements.
template <class E>
class PooledGradients {
 public:
  NSA_DEVICE PooledGradients(const Common& c, const PoolTensor& x, int group, int b, int chunk) {
    if (x.sums.data != nullptr) {
      sums_ = x.sums.data + x.sums.row(c, group, b, 0) * x.columns + x.column + chunk * 8;
      step_ = x.columns;
    } else {
      elements_ =
          at_sequence(x.pooled, c.sequences, b, c.geometry.d) + group * x.pooled.head + chunk * 16;
      step_ = x.pooled.position;
    }
  }
  NSA_DEVICE Eight operator()(int i) const {
    if (sums_ == nullptr) return load_eight<E>(elements_ + i * step_);
    const Words4 low = load_global16(sums_ + i * step_);
    const Words4 high = load_global16(sums_ + i * step_ + 4);
    return {bits_to_float(low.x),
            bits_to_float(low.y),
            bits_to_float(low.z),
            bits_to_float(low.w),
            bits_to_float(high.x),
            bits_to_float(high.y),
            bits_to_float(high.z),
            bits_to_float(high.w)};
  }

 private:
  const float* sums_ = nullptr;
  const char* elements_ = nullptr;
  std::int64_t step_ = 0;
};

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
  const PooledGradients<E> gradients(c, x, group, place.sequence, place.chunk);
  Eight sum{};
  if (x.conv == nullptr) {
    const float weight = 1.0F / static_cast<float>(g.l);
    for (int i = first; i <= last; ++i) {
      const Eight v = gradients(i);
      NSA_UNROLL
      for (int k = 0; k < 8; ++k) sum.x[k] += v.x[k] * weight;
    }
  } else {
    for (int i = first; i <= last; ++i) {
      const Eight v = gradients(i);
      NSA_UNROLL
      for (int k = 0; k < 8; ++k) {
        sum.x[k] += v.x[k] * conv_weight<E>(x, g.l, place.chunk * 8 + k, t - i * g.d);
      }
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
        const PooledGradients<E> gradients(c, x, group, b, chunk);
        const int share = static_cast<int>(ceil_div(count, p.parts));
        const int end = smaller(count, (block_x() + 1) * share);
        for (int i = block_x() * share; i < end; ++i) {
          const Eight v = gradients(i);
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
