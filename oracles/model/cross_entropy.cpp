#include "oracles/model/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace oracles {
namespace {

// -log softmax(z)[target]; dz = (softmax(z) - one at the target) * share.
double loss_of_row(
    const double* z, std::int64_t size, std::int64_t target, double share, double* dz) {
  const double largest = *std::max_element(z, z + size);
  double sum = 0;
  for (std::int64_t v = 0; v < size; ++v) {
    sum += std::exp(z[v] - largest);
  }
  for (std::int64_t v = 0; v < size; ++v) {
    dz[v] = (std::exp(z[v] - largest) / sum - (v == target ? 1 : 0)) * share;
  }
  return std::log(sum) - (z[target] - largest);
}

}  // namespace

CrossEntropy cross_entropy(const Tensor& logits_BSV,
                           const IntTensor& tokens_BS,
                           std::span<const std::int64_t> scored) {
  const std::int64_t length = tokens_BS.shape.at(1);
  const std::int64_t size = logits_BSV.shape.at(2);
  const std::int64_t positions =
      scored.empty() ? tokens_BS.shape.at(0) * (length - 1)
                     : std::accumulate(scored.begin(), scored.end(), std::int64_t{0});
  CrossEntropy result{0, zeros(logits_BSV.shape)};
  for (std::int64_t b = 0; b < tokens_BS.shape[0]; ++b) {
    const std::int64_t end = scored.empty() ? length - 1 : scored[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < end; ++t) {
      const std::int64_t row = b * length + t;
      result.loss += loss_of_row(logits_BSV.data.data() + row * size,
                                 size,
                                 tokens_BS.data[row + 1],
                                 1 / static_cast<double>(positions),
                                 result.dlogits_BSV.data.data() + row * size);
    }
  }
  result.loss /= static_cast<double>(positions);
  return result;
}

}  // namespace oracles
