#include "oracles/sweep.h"

#include <utility>

#include "oracles/lanes.h"
#include "oracles/parallel.h"
#include "oracles/products.h"

namespace oracles {
namespace {

constexpr std::int64_t kBlockRows = 64;  // rows that a thread takes at a time
// The products of a row with every vector, and its square. Eight sums each, added up at the end.
NSA_WIDEST_VECTORS void dot_row(
    const double* row, std::int64_t length, const double* vectors, double* dots, double* square) {
  Lanes sums[kProjections] = {};
  Lanes squares = {};
  const std::int64_t whole = length - length % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    Lanes x;
    load(row + i, x);
    squares += x * x;
    for (int v = 0; v < kProjections; ++v) {
      Lanes y;
      load(vectors + v * length + i, y);
      sums[v] += x * y;
    }
  }
  *square = sum_of(squares);
  for (int v = 0; v < kProjections; ++v) {
    dots[v] = sum_of(sums[v]);
  }
  for (std::int64_t i = whole; i < length; ++i) {
    *square += row[i] * row[i];
    for (int v = 0; v < kProjections; ++v) {
      dots[v] += row[i] * vectors[v * length + i];
    }
  }
}

// sums_v += factors_v * row, and the squares.
NSA_WIDEST_VECTORS void add_row(
    const double* row, std::int64_t length, const double* factors, double* sums, double* squares) {
  const std::int64_t whole = length - length % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    Lanes x;
    Lanes sum;
    load(row + i, x);
    load(squares + i, sum);
    sum += x * x;
    store(sum, squares + i);
    for (int v = 0; v < kProjections; ++v) {
      double* const to = sums + v * length + i;
      load(to, sum);
      sum += factors[v] * x;
      store(sum, to);
    }
  }
  for (std::int64_t i = whole; i < length; ++i) {
    squares[i] += row[i] * row[i];
    for (int v = 0; v < kProjections; ++v) {
      sums[v * length + i] += factors[v] * row[i];
    }
  }
}

// What a block of rows adds to the columns.
struct ColumnSums {
  std::vector<double> left;
  std::vector<double> squares;
};

class Sweeper {
 public:
  Sweeper(const Matrix& matrix, const Vectors* right, const Vectors* left)
      : matrix_(matrix), right_(right), left_(left) {
    if (right != nullptr) {
      out_.right = {matrix.rows, std::vector<double>(size(kProjections * matrix.rows))};
      out_.row_squares.resize(size(matrix.rows));
    }
    if (left != nullptr) {
      out_.left = {matrix.columns, std::vector<double>(size(kProjections * matrix.columns))};
      out_.column_squares.resize(size(matrix.columns));
      partial_.resize(size((matrix.rows + kBlockRows - 1) / kBlockRows));
    }
  }

  void block(std::int64_t begin, std::int64_t end) {
    std::vector<double> row(size(matrix_.columns));
    ColumnSums sums;
    if (left_ != nullptr) {
      sums = {std::vector<double>(size(kProjections * matrix_.columns)),
              std::vector<double>(size(matrix_.columns))};
    }
    for (std::int64_t r = begin; r < end; ++r) {
      matrix_.row(r).copy_to(row.data());
      if (right_ != nullptr) {
        times_right(row.data(), r);
      }
      if (left_ != nullptr) {
        times_left(row.data(), r, sums);
      }
    }
    if (left_ != nullptr) {
      partial_[size(begin / kBlockRows)] = std::move(sums);
    }
  }

  // Blocks are added up in their order, whoever computed them.
  Sweep finish() {
    for (const ColumnSums& sums : partial_) {
      for (std::size_t i = 0; i < sums.left.size(); ++i) {
        out_.left.values[i] += sums.left[i];
      }
      for (std::size_t i = 0; i < sums.squares.size(); ++i) {
        out_.column_squares[i] += sums.squares[i];
      }
    }
    return std::move(out_);
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  void times_right(const double* row, std::int64_t r) {
    double dots[kProjections] = {};
    dot_row(row, matrix_.columns, right_->values.data(), dots, &out_.row_squares[size(r)]);
    for (int v = 0; v < kProjections; ++v) {
      out_.right.of(v)[r] = dots[v];
    }
  }
  void times_left(const double* row, std::int64_t r, ColumnSums& sums) const {
    double factors[kProjections] = {};
    for (int v = 0; v < kProjections; ++v) {
      factors[v] = left_->of(v)[r];
    }
    add_row(row, matrix_.columns, factors, sums.left.data(), sums.squares.data());
  }

  const Matrix& matrix_;
  const Vectors* right_;
  const Vectors* left_;
  Sweep out_;
  std::vector<ColumnSums> partial_;
};

}  // namespace

Sweep sweep(const Matrix& matrix, const Vectors* right, const Vectors* left, int threads) {
  Sweeper sweeper(matrix, right, left);
  parallel_for(matrix.rows, kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
    sweeper.block(begin, end);
  });
  return sweeper.finish();
}

}  // namespace oracles
