// The selected branch, block by block: a thread block keeps the keys of one selection block and passes through the rows of
// the queries in its list. What it makes of a row waits as a part (common/part.h) until the row's own kernel sums them up.
#pragma once

#include "nsa/kernels/attend/params.h"
#include "nsa/kernels/lists/params.h"

namespace nsa::kernels {

struct SelectedParams {
  Common common;
  TensorRef q;
  TensorRef k;
  TensorRef v;
  Divider picks;                          // n
  const std::int32_t* entries = nullptr;  // [G, T*n]
  const ListItem* items = nullptr;        // [ranges, G, max_items]
  const int* item_counts = nullptr;       // [ranges, G]
  int max_items = 0;
  PartBuffers parts;
  // Backward only.
  TensorRef d_o;
  const float* lse = nullptr;         // [G,T,h]
  const float* gate_delta = nullptr;  // [G,T,h,2]
  float* sums = nullptr;              // [G, key_rows, d_k + d_v]: dk and dv are added to it
  int key_rows = 0;
  int* tickets = nullptr;  // [G], zero at the start
  int* turns = nullptr;    // [G, slots], zero at the start
  int slots = 0;

  NSA_BOTH const std::int32_t* group_entries(int group) const {
    return entries + static_cast<std::int64_t>(group) * common.tokens * common.geometry.n_sel;
  }
  // Of the chunk's items of a group, counted through its ranges; null where there is none.
  NSA_BOTH const ListItem* item(int group, int index) const {
    const int range = index / max_items;
    const int of_range = index - range * max_items;
    const std::int64_t list = static_cast<std::int64_t>(range) * common.groups + group;
    if (of_range >= item_counts[list]) return nullptr;
    return items + list * max_items + of_range;
  }
  NSA_BOTH std::int64_t first_row(int b) const {
    if (common.sequences.starts != nullptr) return common.sequences.starts[b];
    return key_rows / common.sequences.count * static_cast<std::int64_t>(b);
  }
};

}  // namespace nsa::kernels
