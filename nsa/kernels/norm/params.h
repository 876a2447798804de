// Parameters of the kernels of RMSNorm; rms_norm.h says what they compute.
#pragma once

#include <cstdint>

namespace nsa::kernels {

inline constexpr int kNormThreads = 256;
inline constexpr int kNormWarps = kNormThreads / 32;
// Blocks whose sums of the weight's gradient are added up at the end: the same on every card, so that sums do not depend on it.
inline constexpr int kNormBlocks = 528;

struct NormParams {
  const char* x = nullptr;
  const char* weight = nullptr;
  const char* d_y = nullptr;
  char* out = nullptr;  // y, or dx
  float* scale = nullptr;
  float* sums = nullptr;  // [kNormBlocks, E] of the weight's gradient
  char* d_weight = nullptr;
  std::int64_t rows = 0;
  int chunks = 0;  // 16-byte chunks of a row
  float epsilon = 0.0F;
};

}  // namespace nsa::kernels
