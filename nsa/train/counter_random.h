// splitmix64 (Steele, Lea, Flood 2014) as a counter-based generator: the n-th number without the ones before it. docs/data.md
// states it; the oracle has its own.
#pragma once

#include <cmath>
#include <cstdint>

namespace nsa {

constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

constexpr std::uint64_t draw(std::uint64_t key, std::uint64_t index) {
  return mix(mix(key) ^ mix(index + 1));
}

// [0, 1)
inline double unit(std::uint64_t bits) {
  return std::ldexp(static_cast<double>(bits >> 11U), -53);
}

}  // namespace nsa
