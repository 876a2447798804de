// The seven projections of a layer by one matrix product, its queries and keys rotated where it left them. Shape letters as in
// nsa/seams/seams.h, and R: columns of the product; T: tokens of all sequences.
#pragma once

#include <array>

#include "nsa/seams/cuda/operands.h"

namespace nsa::cuda {

// Columns of a token's row: queries, then the keys of the three branches, then their values.
enum class Column { q, k_cmp, k_sel, k_win, v_cmp, v_sel, v_win };
inline constexpr std::size_t kColumns = 7;
inline constexpr int kKeyColumns = 3;

// What the columns of a row follow from.
struct RowShape {
  std::int64_t heads;   // of queries
  std::int64_t groups;  // heads of keys and of values
  std::int64_t d_k;
  std::int64_t d_v;
};

using Projected = std::array<Tensor, kColumns>;  // each [B,heads,S,D], by Column

[[nodiscard]] inline const Tensor& column_of(const Projected& x, Column column) {
  return x[static_cast<std::size_t>(column)];
}
[[nodiscard]] inline Tensor& column_of(Projected& x, Column column) {
  return x[static_cast<std::size_t>(column)];
}

// Rows [B,S,R] without a gap, as all of a layer's projections or their gradients.
[[nodiscard]] Tensor new_rows(const RowShape& shape,
                              const Tensor& like,
                              std::int64_t batch,
                              std::int64_t length);
// Views of them.
[[nodiscard]] Projected columns_of(const RowShape& shape, const Tensor& rows_BSR);

struct Projections {
  Projected columns;
  Tensor means_BSGD;  // of the rotated queries of each group
};
// x [B,S,E]; cosines and sines [S,d_k/2] in float32. Differentiable by x and the weights.
[[nodiscard]] Projections project(const ModelConfig& config,
                                  const AttentionWeights& weights,
                                  const Tensor& x_BSE,
                                  const Tensor& cosines,
                                  const Tensor& sines);

}  // namespace nsa::cuda
