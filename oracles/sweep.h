// One pass over a recorded matrix that multiplies it by a few vectors from both sides. Internal to
// products.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/numbers.h"

namespace oracles {

// Several vectors of one length, one after the other: vector v is [v * length, (v + 1) * length).
struct Vectors {
  std::int64_t length = 0;
  std::vector<double> values;

  [[nodiscard]] const double* of(int v) const { return values.data() + v * length; }
  [[nodiscard]] double* of(int v) { return values.data() + v * length; }
};

struct Sweep {
  Vectors right;                       // matrix times right vectors, a number for each row
  std::vector<double> row_squares;     // sums of squares; with `right` only
  Vectors left;                        // left vectors times matrix, a number for each column
  std::vector<double> column_squares;  // with `left` only
};

// `right` of matrix.columns or `left` of matrix.rows numbers, or null; kProjections vectors each.
// Same bits whatever the number of threads.
Sweep sweep(const Matrix& matrix, const Vectors* right, const Vectors* left, int threads);

}  // namespace oracles
