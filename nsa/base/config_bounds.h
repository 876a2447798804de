// Upper bounds of a configuration's numbers: far above every model that exists; their products stay below 2^63.
#pragma once

namespace nsa {

inline constexpr double kMaxWidth = 1 << 16;
inline constexpr double kMaxHeads = 1 << 10;
inline constexpr double kMaxLayers = 1 << 10;
inline constexpr double kMaxLength = 1 << 24;
inline constexpr double kMaxVocabulary = 1 << 20;
inline constexpr double kMaxSteps = 1 << 30;
inline constexpr double kMaxBatch = 1 << 16;
inline constexpr double kMaxRanks = 256;  // one host
inline constexpr double kMaxBucketMb = 4096.0;
inline constexpr double kHuge = 1e12;

}  // namespace nsa
