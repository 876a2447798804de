// Random numbers by their place, not by their turn: the i-th number of a key needs none before it
// (docs/data.md, "Counter-based random numbers"; splitmix64 of Steele, Lea and Flood, 2014).
// Unsigned 64-bit arithmetic that wraps around.
#pragma once

#include <cstdint>

namespace oracles {

constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

constexpr std::uint64_t draw(std::uint64_t key, std::uint64_t i) {
  return mix(mix(key) ^ mix(i + 1));
}

// [0, 1)
constexpr double unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

}  // namespace oracles
