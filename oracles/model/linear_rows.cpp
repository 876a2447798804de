#include "oracles/model/linear_rows.h"

#include <cmath>

#include "oracles/matmul.h"

namespace oracles {
namespace {

// x W^T, or x W where `transposed`.
Tensor product(const Tensor& x, const Tensor& weight, bool transposed, int threads) {
  const std::int64_t rows = x.shape[0];
  const std::int64_t terms = x.shape[1];
  const View w{weight.data.data(), weight.shape[0], weight.shape[1], weight.shape[1], 1};
  const View right = transposed ? w : oracles::transposed(w);
  Tensor y = zeros({rows, right.columns});
  multiply_add_large({x.data.data(), rows, terms, terms, 1},
                     right,
                     {y.data.data(), rows, right.columns, right.columns},
                     threads);
  return y;
}

template <typename Change>
Tensor changed(Tensor tensor, Change change) {
  for (double& value : tensor.data) {
    value = change(value);
  }
  return tensor;
}

double magnitude(double value) {
  return std::abs(value);
}
double square(double value) {
  return value * value;
}

}  // namespace

Expected expected_linear(const Expected& x_RK,
                         const Matrix& weight,
                         bool transposed,
                         const Rounding& rounding,
                         int threads) {
  require_shape(x_RK.value, {x_RK.value.shape.at(0), x_RK.value.shape.at(1)}, "rows");
  const std::int64_t terms = x_RK.value.shape[1];
  require_matrix(weight,
                 transposed ? terms : weight.rows,
                 transposed ? weight.columns : terms,
                 "a linear weight");
  const Tensor w = tensor_of(weight);
  Expected y{product(x_RK.value, w, transposed, threads), {}};
  y.bound = product(changed(x_RK.value, magnitude), changed(w, magnitude), transposed, threads);
  const double summed = rounding.summed * sum_roundoff(terms);
  for (std::size_t i = 0; i < y.bound.data.size(); ++i) {
    y.bound.data[i] =
        summed * y.bound.data[i] + rounding.stored * std::abs(y.value.data[i]) + rounding.flushed;
  }
  if (x_RK.bound.data.empty()) {
    return y;
  }
  const Tensor spread =
      product(changed(x_RK.bound, square), changed(w, square), transposed, threads);
  for (std::size_t i = 0; i < y.bound.data.size(); ++i) {
    y.bound.data[i] += 8 / std::sqrt(3.0) * std::sqrt(spread.data[i]);
  }
  return y;
}

}  // namespace oracles
