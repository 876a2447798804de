#include "nsa/seams/joined_documents.h"

#include <algorithm>

namespace nsa {

using torch::Tensor;

Tensor filled_up(const Tensor& tensor, std::int64_t dim, std::int64_t size) {
  if (tensor.size(dim) == size) return tensor;
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = size - tensor.size(dim);
  return torch::cat({tensor, torch::zeros(shape, tensor.options())}, dim);
}

Tensor joined_documents(const std::vector<AttentionTrace>& documents,
                        const DocumentLengths& lengths,
                        Tensor AttentionTrace::*member,
                        std::int64_t dim) {
  if (!(documents.front().*member).defined()) return {};
  std::vector<Tensor> sequences;
  std::int64_t most = 0;
  auto next = documents.begin();
  for (const auto& sequence : lengths) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < sequence.size(); ++i) parts.push_back(*next++.*member);
    sequences.push_back(torch::cat(parts, dim));
    most = std::max(most, sequences.back().size(dim));
  }
  for (Tensor& sequence : sequences) sequence = filled_up(sequence, dim, most);
  return torch::cat(sequences, 0);
}

}  // namespace nsa
