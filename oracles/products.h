// Whether a recorded matrix is the product of two recorded ones, all of its rows and columns, at the
// cost of reading them (R. Freivalds, Probabilistic machines can use less running time, 1977):
// where C = A B, C r = A (B r) for every vector r.
//
// kProjections vectors r of independent normal numbers are drawn for the rows of C, and as many for
// its columns, from the left. A row of C that is off by a vector d leaves r.d, a normal number of
// standard deviation |d|. It is wrong where that is larger than a bound t:
//   t = 8 (stored |c| + (sqrt(K) + 2) summed |a| |B|) + the oracle's own rounding,
// c and a the row of C and of A, |B| the Frobenius norm, K the terms of a sum: the row's roundings e
// have a length of at most stored |c|, where every number is rounded once when it is stored, plus three
// times the standard deviation sqrt(K)/3 summed |a| |B| of sums (rounding.h), and r.e exceeds eight
// times that once in 10^15. A row that is off by q bounds passes with the probability
// miss_probability(q): all vectors would have to be nearly perpendicular to it. Columns likewise.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/naming.h"
#include "oracles/numbers.h"
#include "oracles/rounding.h"

namespace oracles {

inline constexpr int kProjections = 4;

struct Factor {
  Matrix matrix;
  bool transposed = false;  // the factor is the recorded matrix, transposed
};

// result = scale * sum of a b over the terms. All of one size: a [M,K] b [K,N], K may differ.
struct Product {
  struct Term {
    Factor a;
    Factor b;
  };
  std::vector<Term> terms;
  Matrix result;  // [M,N]
  double scale = 1;
  Rounding rounding = Rounding::of(Number::f32);
};

// y = x W^T of x [R,in], W [out,in]; dx = dy W; dW = dy^T x.
Product linear_product(const Matrix& x, const Matrix& weight, const Matrix& y, Rounding rounding);
Product input_gradient_product(const Matrix& dy,
                               const Matrix& weight,
                               const Matrix& dx,
                               Rounding rounding);
Product weight_gradient_product(const Matrix& dy,
                                const Matrix& x,
                                const Matrix& dweight,
                                Rounding rounding);

struct ProductJudgement {
  Misfit rows;  // judged: rows; worst: the largest |r.d| in units of its bound
  Misfit columns;
  std::vector<std::int64_t> wrong_rows;  // ascending
  std::vector<std::int64_t> wrong_columns;

  [[nodiscard]] bool fits() const { return rows.fits() && columns.fits(); }
};

// `seed` draws the vectors. Throws std::invalid_argument where sizes do not fit or there is no term.
// The same judgement whatever the number of threads.
ProductJudgement judge_product(const Product& product, std::uint64_t seed, int threads = 0);

// That a row or column off by `bounds` times its bound passes; 1 where bounds <= 1.
double miss_probability(double bounds);

}  // namespace oracles
