// Matrix products in one fixed order: every element is c + a_0 b_0 + a_1 b_1 + ..., summed from
// left to right, one rounding an operation. Tiles and threads change the speed, never a bit.
#pragma once

#include <cstdint>

namespace oracles {

// A matrix in somebody else's memory: element (i, j) lies at data[i * row_step + j * column_step].
struct View {
  const double* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_step = 0;
  std::int64_t column_step = 1;
};

struct MutableView {
  double* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_step = 0;
};

inline View transposed(const View& m) {
  return {m.data, m.columns, m.rows, m.column_step, m.row_step};
}

// c += a b. REQUIRES: sizes fit, b.column_step is 1, c overlaps neither. For matrices that fit a
// cache; allocates nothing.
void multiply_add(const View& a, const View& b, const MutableView& c);

// The same result for large matrices: packed, on `threads` threads (0: all the hardware has);
// b may have any steps.
void multiply_add_large(const View& a, const View& b, const MutableView& c, int threads);

}  // namespace oracles
