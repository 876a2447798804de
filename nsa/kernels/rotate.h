// Rotary position embedding of a layer's queries and keys where the projection left them, and the mean of a group's queries
// that the gate reads. Shape letters as in attention.h.
//
// Stated arithmetic: a pair is rotated in float32 and rounded once. The mean is of rounded queries, summed in float32 head
// after head and rounded once. Backward, the share of the mean's gradient is added in float32 before the rotation back.
#pragma once

#include "nsa/kernels/attention.h"

namespace nsa::kernels {

// A row of a token holds H heads of queries, then `key_heads` heads of keys, each d_k wide, without a gap; what follows them
// (values) is left alone.
struct Rotation {
  Element element = Element::bf16;
  std::int64_t batch = 1;
  std::int64_t length = 0;  // S
  int groups = 0;
  int heads = 0;  // of a group
  int key_heads = 0;
  int d_k = 0;  // a multiple of 8
  std::int64_t sequence =
      0;  // elements from one sequence to the next, and from one token to the next: multiples of 8
  std::int64_t position = 0;
  const float* cosines = nullptr;  // [S, d_k/2] of pair c at position t
  const float* sines = nullptr;
};

// In place. rows [B,S,...]; means [B,S,G,d_k] of the element type, without a gap. Throws as attention.h says.
void rotate(const Rotation& rotation, void* rows, void* means, Stream stream);
// Turns the gradient of what rotate() gave into that of what it took, in place; d_means may be null.
void rotate_backward(const Rotation& rotation, void* d_rows, const void* d_means, Stream stream);

}  // namespace nsa::kernels
