#include "oracles/matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "oracles/lanes.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

// 6 rows of 8 lanes fill the 16 registers of AVX2: 12 sums, 2 of b, 1 of a.
constexpr std::int64_t kTileRows = 6;
// Rows of a that one thread packs at a time: with 768 columns 0.4 MB, within an L2 cache.
constexpr std::int64_t kBlockRows = 11 * kTileRows;

// One tile of kLanes columns: c[r, 0..7] += sum_k a[r, k] b[k, 0..7]. Lanes are elements of a row of c.
template <std::int64_t kRows>
[[gnu::always_inline]] inline void add_tile(
    const View& a, const double* b, std::int64_t b_step, double* c, std::int64_t c_step) {
  Lanes sum[kRows];
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::memcpy(&sum[r], c + r * c_step, sizeof(Lanes));
  }
  for (std::int64_t k = 0; k < a.columns; ++k) {
    Lanes right;
    std::memcpy(&right, b + k * b_step, sizeof(Lanes));
    for (std::int64_t r = 0; r < kRows; ++r) {
      sum[r] += a.data[r * a.row_step + k * a.column_step] * right;
    }
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    std::memcpy(c + r * c_step, &sum[r], sizeof(Lanes));
  }
}

// Columns that do not fill a tile, in the same order of operations.
[[gnu::always_inline]] inline void add_narrow(const View& a,
                                              const double* b,
                                              std::int64_t b_step,
                                              const MutableView& c) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      double sum = c.data[r * c.row_step + j];
      for (std::int64_t k = 0; k < a.columns; ++k) {
        sum += a.data[r * a.row_step + k * a.column_step] * b[k * b_step + j];
      }
      c.data[r * c.row_step + j] = sum;
    }
  }
}

// At most kTileRows rows.
[[gnu::always_inline]] inline void add_strip(
    const View& a, const double* b, std::int64_t b_step, double* c, std::int64_t c_step) {
  switch (a.rows) {
    case 1: return add_tile<1>(a, b, b_step, c, c_step);
    case 2: return add_tile<2>(a, b, b_step, c, c_step);
    case 3: return add_tile<3>(a, b, b_step, c, c_step);
    case 4: return add_tile<4>(a, b, b_step, c, c_step);
    case 5: return add_tile<5>(a, b, b_step, c, c_step);
    default: return add_tile<kTileRows>(a, b, b_step, c, c_step);
  }
}

View rows_of(const View& a, std::int64_t begin) {
  return {a.data + begin * a.row_step,
          std::min(kTileRows, a.rows - begin),
          a.columns,
          a.row_step,
          a.column_step};
}

// b packed as panels of kLanes columns, each [terms, kLanes], the last filled up with zeros.
std::vector<double> packed_panels(const View& b) {
  const std::int64_t panels = (b.columns + kLanes - 1) / kLanes;
  std::vector<double> packed(static_cast<std::size_t>(panels * b.rows * kLanes), 0.0);
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * kLanes;
    const std::int64_t width = std::min(kLanes, b.columns - first);
    for (std::int64_t k = 0; k < b.rows; ++k) {
      double* const to = packed.data() + (panel * b.rows + k) * kLanes;
      for (std::int64_t j = 0; j < width; ++j) {
        to[j] = b.data[k * b.row_step + (first + j) * b.column_step];
      }
    }
  }
  return packed;
}

// Rows of a packed as strips of kTileRows rows, each [terms, kTileRows].
void pack_strips(const View& a, std::vector<double>& packed) {
  packed.assign(static_cast<std::size_t>((a.rows + kTileRows) * a.columns), 0.0);
  for (std::int64_t first = 0; first < a.rows; first += kTileRows) {
    const View strip = rows_of(a, first);
    double* const to = packed.data() + first * a.columns;
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t r = 0; r < strip.rows; ++r) {
        to[k * kTileRows + r] = strip.data[r * strip.row_step + k * strip.column_step];
      }
    }
  }
}

// c += a b for strips of a and one panel of b. A panel wider than the rest of c works on a copy.
NSA_WIDEST_VECTORS void multiply_panel(const View& a,
                                       const double* strips,
                                       const double* panel,
                                       const MutableView& c) {
  for (std::int64_t first = 0; first < a.rows; first += kTileRows) {
    View strip = rows_of(a, first);
    strip.data = strips + first * a.columns;
    strip.row_step = 1;
    strip.column_step = kTileRows;
    double* const to = c.data + first * c.row_step;
    if (c.columns == kLanes) {
      add_strip(strip, panel, kLanes, to, c.row_step);
      continue;
    }
    double copy[kTileRows * kLanes] = {};
    for (std::int64_t r = 0; r < strip.rows; ++r) {
      std::copy_n(to + r * c.row_step, c.columns, copy + r * kLanes);
    }
    add_strip(strip, panel, kLanes, copy, kLanes);
    for (std::int64_t r = 0; r < strip.rows; ++r) {
      std::copy_n(copy + r * kLanes, c.columns, to + r * c.row_step);
    }
  }
}

}  // namespace

NSA_WIDEST_VECTORS void multiply_add(const View& a, const View& b, const MutableView& c) {
  const std::int64_t tiled = c.columns - c.columns % kLanes;
  for (std::int64_t first = 0; first < a.rows; first += kTileRows) {
    const View strip = rows_of(a, first);
    double* const to = c.data + first * c.row_step;
    for (std::int64_t j = 0; j < tiled; j += kLanes) {
      add_strip(strip, b.data + j, b.row_step, to + j, c.row_step);
    }
    add_narrow(
        strip, b.data + tiled, b.row_step, {to + tiled, strip.rows, c.columns - tiled, c.row_step});
  }
}

void multiply_add_large(const View& a, const View& b, const MutableView& c, int threads) {
  const std::vector<double> panels = packed_panels(b);
  parallel_for(a.rows, kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    const View block{
        a.data + begin * a.row_step, end - begin, a.columns, a.row_step, a.column_step};
    std::vector<double> strips;
    pack_strips(block, strips);
    for (std::int64_t j = 0; j < c.columns; j += kLanes) {
      const MutableView part{
          c.data + begin * c.row_step + j, block.rows, std::min(kLanes, c.columns - j), c.row_step};
      multiply_panel(block, strips.data(), panels.data() + j * b.rows, part);
    }
  });
}

}  // namespace oracles
