// Vectors of doubles, as wide as the machine has them. Included by the few sources whose inner loops need it; contraction to
// fused multiply-adds is off in this library, so the width changes no sum.
#pragma once

#include <cstdint>
#include <cstring>

// The loader picks the widest vectors of the machine for such a function. Sanitizers start after the loader has resolved
// them, so they go without.
#if defined(__x86_64__) && defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define NSA_WIDEST_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define NSA_WIDEST_VECTORS
#endif

namespace oracles {

inline constexpr std::int64_t kLanes = 8;
using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));

// By reference: a vector as a return value would depend on the machine that a file is compiled for.
[[gnu::always_inline]] inline void load(const double* from, Lanes& to) {
  std::memcpy(&to, from, sizeof(to));
}
[[gnu::always_inline]] inline void store(const Lanes& from, double* to) {
  std::memcpy(to, &from, sizeof(from));
}
[[gnu::always_inline]] inline double sum_of(const Lanes& lanes) {
  double sum = 0;
  for (std::int64_t i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

}  // namespace oracles
