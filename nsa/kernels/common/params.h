// Parameters that several kernels share. Plain values: they travel as kernel parameters.
#pragma once

#include <cstdint>

#include "nsa/kernels/common/geometry.h"

namespace nsa::kernels {

inline constexpr float kLog2E = 1.44269504088896341F;

// A tensor [B, heads, S, D] with steps in bytes, unit stride in D.
struct TensorRef {
  char* data = nullptr;
  std::int64_t sequence = 0;  // not used in varlen
  std::int64_t head = 0;
  std::int64_t position = 0;
};

// Where one sequence of it begins. `stride`: tokens for each of its rows, d for compressed tokens.
NSA_BOTH char* at_sequence(const TensorRef& x, const Sequences& all, int b, int stride = 1) {
  if (all.starts == nullptr) return x.data + b * x.sequence;
  return x.data + all.starts[b] / stride * x.position;
}

// What all kernels know of the problem.
struct Common {
  Sequences sequences;
  Geometry geometry;
  Divider heads;  // of a group
  int groups = 0;
  int tokens = 0;      // of all sequences
  int max_blocks = 0;  // N of the longest sequence
  int k_chunks = 0;    // 16-byte chunks of a row of d_k, d_v elements
  int v_chunks = 0;
  float scale = 0.0F;       // 1 / sqrt(d_k)
  float scale_log2 = 0.0F;  // that times log2(e)

  // Index of row r of sequence b in arrays [G,T,h].
  NSA_BOTH std::int64_t row_index(int group, int b, std::int64_t r) const {
    return (static_cast<std::int64_t>(group) * tokens + sequences.begin(b)) * heads.divisor + r;
  }
};

// Bits of a value of a narrow part.
inline constexpr int kNarrowPartBits = 12;

// Parts of the selected branch (common/part.h) of the tokens from `from` on and of some groups. Part (T, g, pick, head) is row
// (((T - from) * groups + g - first_group) * picks + pick - skipped) * h + head of `values` and `scales`.
struct PartBuffers {
  char* values = nullptr;   // [.., columns] of `bits` bits; null: there are none
  float* scales = nullptr;  // [.., 2]
  int from = 0;
  int first_group = 0;
  int groups = 0;
  int picks = 0;    // that can have parts, of each query
  int skipped = 0;  // first of them
  int bits = 16;    // of a value: 16 or kNarrowPartBits

  [[nodiscard]] bool is_narrow() const { return bits == kNarrowPartBits; }
  NSA_BOTH std::int64_t row(const Common& c, int group, int token, int pick, int head) const {
    const std::int64_t query =
        static_cast<std::int64_t>(token - from) * groups + group - first_group;
    return (query * picks + pick - skipped) * c.heads.divisor + head;
  }
};

// Is this pick of a query in block `current` in the inverted lists? `forced_apart`: forced blocks are dense ranges, not list
// entries.
NSA_BOTH bool is_listed(
    const Geometry& g, bool forced_apart, int current, int block, int previous) {
  return is_attended(current, block, previous) && !(forced_apart && g.is_forced_at(current, block));
}

}  // namespace nsa::kernels
