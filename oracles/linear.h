// y = x W^T over the last dimension, and its two gradients. No bias. W is [out, in].
#pragma once

#include "oracles/tensor.h"

namespace oracles {

// x [.., in] -> [.., out]
Tensor linear(const Tensor& x, const Tensor& weight, int threads);
// dx += dy W, for dy [.., out] and dx [.., in].
void add_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, int threads);
// dW = dy^T x, summed over all leading dimensions in order.
Tensor weight_gradient(const Tensor& dy, const Tensor& x, int threads);

}  // namespace oracles
