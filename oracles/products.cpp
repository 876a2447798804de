#include "oracles/products.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>

#include "oracles/counter_random.h"
#include "oracles/sweep.h"

namespace oracles {
namespace {

// Normal numbers by Box and Muller; 1 - unit() is never 0.
Vectors drawn(std::int64_t length, std::uint64_t key) {
  Vectors vectors{length, std::vector<double>(static_cast<std::size_t>(kProjections * length))};
  for (std::size_t i = 0; i < vectors.values.size(); i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - unit(draw(key, i))));
    const double angle = 2 * std::numbers::pi * unit(draw(key, i + 1));
    vectors.values[i] = radius * std::cos(angle);
    vectors.values[i + 1] = radius * std::sin(angle);
  }
  return vectors;
}

// A factor's products with vectors from the right and from the left, whichever way it is recorded.
struct Applied {
  Vectors right;
  Vectors left;
  std::vector<double> row_squares;
  std::vector<double> column_squares;
};

Applied applied(const Factor& factor, const Vectors* right, const Vectors* left, int threads) {
  if (factor.transposed) {
    Sweep s = sweep(factor.matrix, left, right, threads);
    return {std::move(s.left),
            std::move(s.right),
            std::move(s.column_squares),
            std::move(s.row_squares)};
  }
  Sweep s = sweep(factor.matrix, right, left, threads);
  return {
      std::move(s.right), std::move(s.left), std::move(s.row_squares), std::move(s.column_squares)};
}

std::int64_t columns_of(const Factor& f) {
  return f.transposed ? f.matrix.rows : f.matrix.columns;
}

void validate(const Product& p) {
  if (p.terms.empty()) {
    throw std::invalid_argument("a product without terms");
  }
  require_matrix(p.result, p.result.rows, p.result.columns, "the product");
  for (const Product::Term& term : p.terms) {
    const auto require =
        [](const Factor& f, std::int64_t rows, std::int64_t columns, const char* what) {
          require_matrix(
              f.matrix, f.transposed ? columns : rows, f.transposed ? rows : columns, what);
        };
    require(term.a, p.result.rows, columns_of(term.a), "the first factor");
    require(term.b, columns_of(term.a), p.result.columns, "the second factor");
  }
}

double total(const std::vector<double>& squares) {
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

void add_scaled(Vectors& to, const Vectors& from, double scale) {
  for (std::size_t i = 0; i < to.values.size(); ++i) {
    to.values[i] += scale * from.values[i];
  }
}

// One side: rows of the result, or its columns.
struct Side {
  Vectors wanted;             // what the factors give
  std::vector<double> sizes;  // |a| |B| of each row, summed over the terms
  std::vector<double> sums;   // (sqrt(K) + 2) |a| |B|
};

Side empty_side(std::int64_t length) {
  const auto count = static_cast<std::size_t>(length);
  return {{length, std::vector<double>(kProjections * count)},
          std::vector<double>(count),
          std::vector<double>(count)};
}

void add_sizes(Side& side, const std::vector<double>& squares, double other, double terms) {
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double size = std::sqrt(squares[i]) * other;
    side.sizes[i] += size;
    side.sums[i] += (std::sqrt(terms) + 2) * size;
  }
}

Misfit compare(const Side& side,
               const Vectors& found,
               const std::vector<double>& squares,
               double longest,
               const Rounding& rounding,
               std::vector<std::int64_t>& wrong) {
  constexpr double kOwn = 0x1p-53;
  Misfit misfit;
  for (std::int64_t i = 0; i < found.length; ++i) {
    const double length = std::sqrt(squares[i]);
    const double own = 3 * longest * kOwn * (length + side.sizes[i]);
    const double bound = 8 * (rounding.stored * length + rounding.summed * side.sums[i] +
                              rounding.flushed * std::sqrt(longest)) +
                         own;
    Misfit row;
    for (int v = 0; v < kProjections; ++v) {
      row.add(i, found.of(v)[i], side.wanted.of(v)[i], bound);
    }
    if (!row.fits()) {
      wrong.push_back(i);
    }
    misfit.add({1, row.fits() ? 0 : 1, row.first, row.worst});
  }
  return misfit;
}

}  // namespace

Product linear_product(const Matrix& x, const Matrix& weight, const Matrix& y, Rounding rounding) {
  return {{{{x, false}, {weight, true}}}, y, 1, rounding};
}
Product input_gradient_product(const Matrix& dy,
                               const Matrix& weight,
                               const Matrix& dx,
                               Rounding rounding) {
  return {{{{dy, false}, {weight, false}}}, dx, 1, rounding};
}
Product weight_gradient_product(const Matrix& dy,
                                const Matrix& x,
                                const Matrix& dweight,
                                Rounding rounding) {
  return {{{{dy, true}, {x, false}}}, dweight, 1, rounding};
}

ProductJudgement judge_product(const Product& product, std::uint64_t seed, int threads) {
  validate(product);
  const std::int64_t rows = product.result.rows;
  const std::int64_t columns = product.result.columns;
  const Vectors right = drawn(columns, mix(seed));
  const Vectors left = drawn(rows, mix(seed + 1));
  Side by_row = empty_side(rows);
  Side by_column = empty_side(columns);
  auto longest = static_cast<double>(std::max(rows, columns));
  for (const Product::Term& term : product.terms) {
    const Applied b = applied(term.b, &right, nullptr, threads);
    const Applied a = applied(term.a, &b.right, &left, threads);
    const Applied again = applied(term.b, nullptr, &a.left, threads);
    add_scaled(by_row.wanted, a.right, product.scale);
    add_scaled(by_column.wanted, again.left, product.scale);
    const double terms = static_cast<double>(columns_of(term.a));
    longest = std::max(longest, terms);
    const double b_size = std::abs(product.scale) * std::sqrt(total(again.column_squares));
    const double a_size = std::abs(product.scale) * std::sqrt(total(a.row_squares));
    add_sizes(by_row, a.row_squares, b_size, terms);
    add_sizes(by_column, again.column_squares, a_size, terms);
  }
  const Applied c = applied({product.result, false}, &right, &left, threads);
  ProductJudgement judgement;
  judgement.rows =
      compare(by_row, c.right, c.row_squares, longest, product.rounding, judgement.wrong_rows);
  judgement.columns = compare(
      by_column, c.left, c.column_squares, longest, product.rounding, judgement.wrong_columns);
  return judgement;
}

// |r.(d + e)| <= t for all vectors, where |d + e| is at least (bounds - 1/8) t and r.(d + e) is normal.
double miss_probability(double bounds) {
  if (!(bounds > 1)) {
    return 1;
  }
  return std::pow(std::erf(1 / (std::numbers::sqrt2 * (bounds - 0.125))), kProjections);
}

}  // namespace oracles
