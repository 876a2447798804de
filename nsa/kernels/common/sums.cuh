// Sums of the key-gradient kernels read back in a fixed order, and rows of elements eight at a time.
#pragma once

#include "nsa/kernels/common/device.h"
#include "nsa/kernels/common/sum_ref.h"

namespace nsa::kernels {

// Keys of a sequence; `stride` 1: raw tokens, d: compressed tokens.
NSA_BOTH int keys_of(const Common& c, int b, int stride) {
  const int keys = c.sequences.keys(b);
  return stride == 1 ? keys : c.geometry.compressed(keys - 1);
}

// A key of all sequences, numbered as rows of key tensors are: in varlen by packed position / stride.
struct KeyPlace {
  int sequence;
  int key;  // not below keys_of where there is none
};
NSA_BOTH KeyPlace key_place(const Common& c, std::int64_t number, int stride) {
  const auto begin = [&](int b) -> std::int64_t {
    if (c.sequences.starts != nullptr) return c.sequences.starts[b] / stride;
    return static_cast<std::int64_t>(b) * keys_of(c, 0, stride);
  };
  const int b = c.sequences.find(number, begin);
  return {b, static_cast<int>(number - begin(b))};
}

struct Eight {
  float x[8];
};

// Adds eight columns of a key, segment after segment.
NSA_DEVICE void add_sums(Eight& to,
                         const SumRef& from,
                         const Common& c,
                         int group,
                         int b,
                         int key,
                         int columns,
                         int column) {
  if (!from.has(key)) return;
  const std::int64_t rows = static_cast<std::int64_t>(c.groups) * from.key_rows;
  const std::int64_t row = from.row(c, group, b, key);
  const int segments = from.segments(c, b, key);
  for (int s = 0; s < segments; ++s) {
    const float* at = from.data + (s * rows + row) * columns + column;
    NSA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Words4 w = load_global16(at + 4 * half);
      to.x[4 * half] += bits_to_float(w.x);
      to.x[4 * half + 1] += bits_to_float(w.y);
      to.x[4 * half + 2] += bits_to_float(w.z);
      to.x[4 * half + 3] += bits_to_float(w.w);
    }
  }
}

template <class E>
NSA_DEVICE Eight unpacked(const Words4& w) {
  const Pair pairs[4] = {unpack<E>(w.x), unpack<E>(w.y), unpack<E>(w.z), unpack<E>(w.w)};
  Eight v;
  NSA_UNROLL
  for (int i = 0; i < 4; ++i) {
    v.x[2 * i] = pairs[i].x;
    v.x[2 * i + 1] = pairs[i].y;
  }
  return v;
}
template <class E>
NSA_DEVICE Words4 packed(const Eight& v) {
  return {pack<E>(v.x[0], v.x[1]),
          pack<E>(v.x[2], v.x[3]),
          pack<E>(v.x[4], v.x[5]),
          pack<E>(v.x[6], v.x[7])};
}

template <class E>
NSA_DEVICE Eight load_eight(const char* from) {
  return unpacked<E>(load_global16(from));
}
template <class E>
NSA_DEVICE void store_eight(char* to, const Eight& v) {
  store_global16(to, packed<E>(v));
}

}  // namespace nsa::kernels
