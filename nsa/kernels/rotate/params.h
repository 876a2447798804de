// Parameters of the rotation kernel; rotate.h says what it computes.
#pragma once

#include <cstdint>

namespace nsa::kernels {

struct RotateParams {
  char* rows = nullptr;
  std::int64_t sequence = 0;  // bytes from one sequence to the next
  std::int64_t position = 0;  // bytes from one token to the next
  std::int64_t tokens = 0;    // B * S
  int length = 0;
  int groups = 0;
  int heads = 0;
  int key_heads = 0;
  int chunks = 0;  // 16-byte chunks of a head
  const float* cosines = nullptr;
  const float* sines = nullptr;
  char* means = nullptr;          // forward: written
  const char* d_means = nullptr;  // backward: read; may be null
  bool backward = false;
};

}  // namespace nsa::kernels
