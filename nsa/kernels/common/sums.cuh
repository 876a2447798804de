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

// A key's row of sums in memory, segment after segment.
class KeySums {
 public:
  NSA_DEVICE KeySums(const SumRef& from, const Common& c, int group, int b, int key, int columns) {
    if (!from.has(key)) return;
    step_ = static_cast<std::int64_t>(c.groups) * from.key_rows * columns;
    at_ = from.data + from.row(c, group, b, key) * columns;
    segments_ = from.segments(c, b, key);
  }
  // Eight columns.
  NSA_DEVICE void add_to(Eight& to, int column) const {
    const float* at = at_ + column;
    for (int s = 0; s < segments_; ++s, at += step_) {
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

 private:
  const float* at_ = nullptr;
  std::int64_t step_ = 0;  // floats from one segment to the next
  int segments_ = 0;
};

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
