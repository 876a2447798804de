// Kernel of rotate/params.h. A thread has eight columns (four pairs) of one token: of all query heads of a group, whose mean it
// takes on the way, or of one head of keys.
#pragma once

#include "nsa/kernels/common/sums.cuh"
#include "nsa/kernels/rotate/params.h"

namespace nsa::kernels {

inline constexpr int kRotateThreads = 256;

struct Angles {
  float cosine[4];
  float sine[4];
};

NSA_DEVICE Angles angles_of(const RotateParams& p, int t, int chunk) {
  const std::int64_t at = (static_cast<std::int64_t>(t) * p.chunks + chunk) * 4;
  const Words4 cosines = load_global16(p.cosines + at);
  const Words4 sines = load_global16(p.sines + at);
  const std::uint32_t c[4] = {cosines.x, cosines.y, cosines.z, cosines.w};
  const std::uint32_t s[4] = {sines.x, sines.y, sines.z, sines.w};
  Angles a;
  NSA_UNROLL
  for (int i = 0; i < 4; ++i) {
    a.cosine[i] = bits_to_float(c[i]);
    a.sine[i] = p.backward ? -bits_to_float(s[i]) : bits_to_float(s[i]);
  }
  return a;
}

NSA_DEVICE Eight rotated(const Eight& x, const Angles& a) {
  Eight y;
  NSA_UNROLL
  for (int i = 0; i < 4; ++i) {
    y.x[2 * i] = x.x[2 * i] * a.cosine[i] - x.x[2 * i + 1] * a.sine[i];
    y.x[2 * i + 1] = x.x[2 * i] * a.sine[i] + x.x[2 * i + 1] * a.cosine[i];
  }
  return y;
}

inline constexpr int kHeadsAtOnce = 4;  // loads on their way together

// All heads of one group's queries from `at` on; `mean` is where the group's mean or its gradient is.
template <class E>
NSA_DEVICE void rotate_group(const RotateParams& p, char* at, const Angles& a, std::int64_t mean) {
  const std::int64_t step = static_cast<std::int64_t>(p.chunks) * 16;
  const float share = 1.0F / static_cast<float>(p.heads);
  Eight added{};
  if (p.backward && p.d_means != nullptr) added = load_eight<E>(p.d_means + mean);
  NSA_UNROLL
  for (int i = 0; i < 8; ++i) added.x[i] *= share;
  Eight sum{};
  for (int first = 0; first < p.heads; first += kHeadsAtOnce) {
    Words4 words[kHeadsAtOnce] = {};
    NSA_UNROLL
    for (int head = 0; head < kHeadsAtOnce; ++head) {
      if (first + head < p.heads) words[head] = load_global16(at + (first + head) * step);
    }
    NSA_UNROLL
    for (int head = 0; head < kHeadsAtOnce; ++head) {
      if (first + head >= p.heads) break;
      Eight x = unpacked<E>(words[head]);
      NSA_UNROLL
      for (int i = 0; i < 8; ++i) x.x[i] += added.x[i];
      const Words4 stored = packed<E>(rotated(x, a));
      store_global16(at + (first + head) * step, stored);
      const Eight rounded = unpacked<E>(stored);  // the mean is of what attention reads
      NSA_UNROLL
      for (int i = 0; i < 8; ++i) sum.x[i] += rounded.x[i];
    }
  }
  if (p.backward) return;
  NSA_UNROLL
  for (int i = 0; i < 8; ++i) sum.x[i] /= static_cast<float>(p.heads);
  store_eight<E>(p.means + mean, sum);
}

template <class E>
NSA_KERNEL(kRotateThreads, 1)
rotate_rows(NSA_PARAMETER RotateParams p) {
  const int units = p.groups + p.key_heads;
  const std::int64_t index = static_cast<std::int64_t>(block_x()) * kRotateThreads + thread_index();
  const std::int64_t token = index / (units * p.chunks);
  if (token >= p.tokens) return;
  const int rest = static_cast<int>(index % (units * p.chunks));
  const int unit = rest / p.chunks;
  const int chunk = rest % p.chunks;
  const std::int64_t b = token / p.length;
  const int t = static_cast<int>(token % p.length);
  const int first_head = unit < p.groups ? unit * p.heads : p.groups * (p.heads - 1) + unit;
  char* at = p.rows + b * p.sequence + t * p.position +
             (static_cast<std::int64_t>(first_head) * p.chunks + chunk) * 16;
  const Angles a = angles_of(p, t, chunk);
  if (unit < p.groups) {
    rotate_group<E>(
        p, at, a, ((static_cast<std::int64_t>(token) * p.groups + unit) * p.chunks + chunk) * 16);
  } else {
    store_eight<E>(at, rotated(load_eight<E>(at), a));
  }
}

}  // namespace nsa::kernels
