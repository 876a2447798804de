// Attention of rows (query, head) over ranges of keys: window, compressed tokens, the forced blocks.
#pragma once

#include "nsa/kernels/common/params.h"

namespace nsa::kernels {

// Keys and values of one branch, [B,G,K,.], and which of them a query sees.
struct KeySource {
  TensorRef k;
  TensorRef v;
  KeyRange range;

  NSA_BOTH int stride() const { return range.kind == RangeKind::compressed ? range.geometry.d : 1; }
};

// Gates [B,G|H,S,3].
struct GateRef {
  TensorRef values;         // position step: of a query; head step: of a group or head
  std::int64_t branch = 0;  // byte step from one branch to the next
  bool is_float = false;
  bool per_head = false;
};

struct ForwardBranch {
  int sources_begin = 0;  // of ForwardParams: one softmax over all of them
  int sources_end = 0;
  TensorRef o;
  float* lse = nullptr;  // [G,T,h]; may be null
  // [G,T,h,2] as PartScale: the rows of o are steps (common/part.h), for a sum with parts. Null: they are results.
  float* scales = nullptr;
};

struct ForwardParams {
  Common common;
  RowTiles tiles;
  TensorRef q;
  KeySource sources[4];  // of the branches, one after the other
  ForwardBranch branches[3];
  int branch_count = 0;
  int together = 1;  // branches that one thread block works on, one after the other
};

// What a row of the backward pass needs of its branch: gate g and g * (d_o . o) as pairs [G,T,h]; ds = p (g dp - g x).
struct GradientSource {
  KeySource keys;
  const float* lse = nullptr;         // [G,T,h]
  const float* gate_delta = nullptr;  // [G,T,h,2]
};

struct QueryGradientParams {
  Common common;
  RowTiles tiles;
  TensorRef q;
  TensorRef d_o;
  GradientSource sources[4];
  int source_count = 0;
  TensorRef d_q;
  float* steps =
      nullptr;  // [G,T,h]: the rows of d_q are steps of this size (common/part.h). Null: they are results.
};

// One set of key tiles in a launch of the key-gradient kernel. The rows that see a key tile are cut into segments; the sums of
// segment i go to sums[i][g * key_rows + first row of the sequence + key][d_k + d_v].
struct KeyGradientSource {
  GradientSource in;
  KeyTiles tiles;
  float* sums = nullptr;  // null: the only segment writes d_k and d_v
  TensorRef d_k;
  TensorRef d_v;
  int key_rows = 0;  // of all sequences
  int slots = 0;     // of key tiles
  int segments = 1;  // most of a key tile
  int segment = 0;   // rows of one

  NSA_BOTH std::int64_t first_row(const Sequences& all, int b) const {
    if (tiles.range.kind == RangeKind::initial) {
      return static_cast<std::int64_t>(b) * tiles.range.initial_end();
    }
    if (all.starts != nullptr) return all.starts[b] / tiles.stride();
    return key_rows / all.count * static_cast<std::int64_t>(b);
  }
};

struct KeyGradientParams {
  Common common;
  TensorRef q;
  TensorRef d_o;
  KeyGradientSource sources[4];
  int source_count = 0;
};

}  // namespace nsa::kernels
