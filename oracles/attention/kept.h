// What a computation rounds the tensors to that it keeps. The oracle itself rounds nothing; told to keep
// narrow tensors, it is a second, independent computation in that type: every tensor that is stored is
// rounded to it once, everything between (sums, softmax, rotation) is exact. Its distance from the
// oracle is what the type alone does to the numbers. Written from docs/arithmetic.md, never from an
// implementation.
#pragma once

#include <array>

#include "oracles/attention/keys.h"
#include "oracles/numbers.h"
#include "oracles/tensor.h"

namespace oracles {

struct Kept {
  Number results = Number::f64;  // stages, and the gradients that the backward hands on
  Number input = Number::f64;    // the gradient of x
  // By branch: a back end that multiplies narrow numbers rounds the probabilities and their gradients
  // before their products, takes the mean of the softmax's backward from the stored output, and
  // hands on the gradients of keys and values head by head.
  std::array<bool, 3> narrow_products{};
  // The gradients of a tensor's consumers are added in the type of the results, one after the other.
  bool narrow_sums = false;

  [[nodiscard]] bool rounds() const { return results != Number::f64; }
  [[nodiscard]] bool narrow(Branch branch) const {
    return narrow_products[static_cast<std::size_t>(branch)];
  }
  void round(std::vector<double>& values) const { round(values, results); }
  static void round(std::vector<double>& values, Number number) {
    if (number == Number::f64) return;
    for (double& value : values) value = rounded(value, number);
  }
  [[nodiscard]] Tensor of(Tensor tensor) const {
    round(tensor.data);
    return tensor;
  }
};

}  // namespace oracles
