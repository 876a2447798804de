// rms(z, gain) = z / sqrt(mean(z^2) + 1e-6) * gain over the last dimension (golden README,
// "Language model"), and its gradients. Legend: E width of the last dimension.
#pragma once

#include "oracles/tensor.h"

namespace oracles {

// z [.., E], gain [E] -> [.., E]. REQUIRES: shapes fit.
Tensor rms_norm(const Tensor& z, const Tensor& gain);

// dz += d rms / dz of dy [.., E]; dgain [E] += d rms / dgain, summed over all rows in order.
void add_rms_norm_gradients(
    const Tensor& dy, const Tensor& z, const Tensor& gain, Tensor& dz, Tensor& dgain);

}  // namespace oracles
