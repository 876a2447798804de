#include "oracles/linear.h"

#include "oracles/matmul.h"

namespace oracles {
namespace {

// All leading dimensions as one.
std::int64_t row_count(const Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.data.size()) / tensor.shape.back();
}

View matrix(const Tensor& tensor) {
  const std::int64_t columns = tensor.shape.back();
  return {tensor.data.data(), row_count(tensor), columns, columns, 1};
}

MutableView matrix(Tensor& tensor) {
  const std::int64_t columns = tensor.shape.back();
  return {tensor.data.data(), row_count(tensor), columns, columns};
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, int threads) {
  Shape shape = x.shape;
  shape.back() = weight.shape.at(0);
  Tensor y = zeros(shape);
  multiply_add_large(matrix(x), transposed(matrix(weight)), matrix(y), threads);
  return y;
}

void add_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, int threads) {
  multiply_add_large(matrix(dy), matrix(weight), matrix(dx), threads);
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x, int threads) {
  Tensor gradient = zeros({dy.shape.back(), x.shape.back()});
  multiply_add_large(transposed(matrix(dy)), matrix(x), matrix(gradient), threads);
  return gradient;
}

}  // namespace oracles
