#include "oracles/model/cross_entropy.h"

#include <algorithm>
#include <cmath>

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

// Which positions of [B,S] are scored.
std::vector<bool> scored_of(const Shape& tokens,
                            std::span<const std::int64_t> scored,
                            std::span<const std::vector<std::int64_t>> documents) {
  const std::int64_t length = tokens.at(1);
  std::vector<bool> is_scored;
  for (std::int64_t b = 0; b < tokens[0]; ++b) {
    const std::int64_t end = scored.empty() ? length - 1 : scored[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < length; ++t) is_scored.push_back(t < end);
  }
  for (std::size_t b = 0; b < documents.size(); ++b) {
    std::int64_t begin = static_cast<std::int64_t>(b) * length;
    for (const std::int64_t own : documents[b]) {
      begin += own;
      is_scored[static_cast<std::size_t>(begin - 1)] = false;
    }
  }
  return is_scored;
}

}  // namespace

CrossEntropy cross_entropy(const Tensor& logits_BSV,
                           const IntTensor& tokens_BS,
                           std::span<const std::int64_t> scored,
                           std::span<const std::vector<std::int64_t>> documents) {
  const std::int64_t size = logits_BSV.shape.at(2);
  const std::vector<bool> is_scored = scored_of(tokens_BS.shape, scored, documents);
  const auto positions = std::count(is_scored.begin(), is_scored.end(), true);
  CrossEntropy result{0, zeros(logits_BSV.shape)};
  for (std::size_t row = 0; row < is_scored.size(); ++row) {
    if (!is_scored[row]) continue;
    const auto at = static_cast<std::int64_t>(row) * size;
    result.loss += loss_of_row(logits_BSV.data.data() + at,
                               size,
                               tokens_BS.data[row + 1],
                               1 / static_cast<double>(positions),
                               result.dlogits_BSV.data.data() + at);
  }
  result.loss /= static_cast<double>(positions);
  return result;
}

}  // namespace oracles
