#include "oracles/attention/documents.h"

#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace oracles {
namespace {

// [B,S,E] as [B,1,S,E], and [B,G,S] as [B,G,S,1].
Tensor with_one(Tensor tensor, std::size_t dim) {
  tensor.shape.insert(tensor.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  return tensor;
}
Tensor without(Tensor tensor, std::size_t dim) {
  tensor.shape.erase(tensor.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return tensor;
}

constexpr std::size_t kLists = 1;
constexpr std::size_t kLast = 3;

// What one document is given.
struct DocumentInputs {
  Tensor x;  // [1,s,E]
  AttentionOptions options;
};

DocumentInputs inputs_of(const Tensor& x_B1SE,
                         const AttentionOptions& options,
                         const DocumentPlace& at) {
  DocumentInputs inputs{without(tokens_of(x_B1SE, at), kLists), options};
  if (options.replay) inputs.options.replay = tokens_of(*options.replay, at);
  return inputs;
}

void require_all_rows(const AttentionOptions& options) {
  if (!options.rows.empty()) {
    throw std::invalid_argument("packed documents: found some rows, wanted all");
  }
}

}  // namespace

void require_documents(const DocumentLengths& lengths, const Shape& tokens_BS) {
  if (lengths.empty()) return;
  if (static_cast<std::int64_t>(lengths.size()) != tokens_BS.at(0)) {
    throw std::invalid_argument("packed documents of " + std::to_string(lengths.size()) +
                                " sequences, wanted " + std::to_string(tokens_BS.at(0)));
  }
  for (const auto& sequence : lengths) {
    for (const std::int64_t length : sequence) {
      if (length < 1) {
        throw std::invalid_argument("a packed document of " + std::to_string(length) +
                                    " tokens, wanted 1 or more");
      }
    }
    const std::int64_t sum = std::accumulate(sequence.begin(), sequence.end(), std::int64_t{0});
    if (sum != tokens_BS.at(1)) {
      throw std::invalid_argument("packed documents of " + std::to_string(sum) +
                                  " tokens in a sequence of " + std::to_string(tokens_BS.at(1)));
    }
  }
}

std::vector<DocumentPlace> document_places(const DocumentLengths& lengths) {
  std::vector<DocumentPlace> places;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    std::int64_t begin = 0;
    std::int64_t number = 0;
    for (const std::int64_t length : lengths[row]) {
      places.push_back({static_cast<std::int64_t>(row), number++, begin, length});
      begin += length;
    }
  }
  return places;
}

DocumentResult attention_of_documents(const AttentionConfig& config,
                                      const Weights& weights,
                                      const Tensor& x,
                                      const DocumentLengths& lengths,
                                      const AttentionOptions& options) {
  if (lengths.empty()) {
    AttentionResult whole = attention(config, weights, x, options);
    return {std::move(whole.y), std::move(whole.blocks), std::move(whole.margin)};
  }
  require_all_rows(options);
  require_documents(lengths, x.shape);
  const std::int64_t b = x.shape.at(0);
  const std::int64_t s = x.shape.at(1);
  const Tensor x_B1SE = with_one(x, kLists);
  Tensor y = zeros(x_B1SE.shape);
  Tensor margin = zeros({b, config.n_kv_groups, s, 1});
  DocumentResult all;
  all.blocks = filled<std::int64_t>({b, config.n_kv_groups, s, config.n_sel}, -1);
  for (const DocumentPlace& at : document_places(lengths)) {
    const DocumentInputs own = inputs_of(x_B1SE, options, at);
    const AttentionResult result = attention(config, weights, own.x, own.options);
    put_tokens(with_one(result.y, kLists), at, y);
    put_tokens(with_one(result.margin, kLast), at, margin);
    put_tokens(result.blocks, at, all.blocks);
  }
  all.y = without(std::move(y), kLists);
  all.margin = without(std::move(margin), kLast);
  return all;
}

DocumentPass attention_of_documents_with_gradients(const AttentionConfig& config,
                                                   const Weights& weights,
                                                   const Tensor& x,
                                                   const Tensor& dy,
                                                   const DocumentLengths& lengths,
                                                   const AttentionOptions& options) {
  if (lengths.empty()) {
    AttentionPass whole = attention_with_gradients(config, weights, x, dy, options);
    return {std::move(whole.gradients.x), std::move(whole.gradients.weights)};
  }
  require_all_rows(options);
  require_documents(lengths, x.shape);
  require_shape(dy, x.shape, "dy");
  const Tensor x_B1SE = with_one(x, kLists);
  const Tensor dy_B1SE = with_one(dy, kLists);
  Tensor dx = zeros(x_B1SE.shape);
  DocumentPass all;
  for (const auto& [name, weight] : weights) all.weights[name] = zeros(weight.shape);
  for (const DocumentPlace& at : document_places(lengths)) {
    const DocumentInputs own = inputs_of(x_B1SE, options, at);
    const Tensor own_dy = without(tokens_of(dy_B1SE, at), kLists);
    const AttentionGradients gradients =
        attention_with_gradients(config, weights, own.x, own_dy, own.options).gradients;
    put_tokens(with_one(gradients.x, kLists), at, dx);
    for (const auto& [name, gradient] : gradients.weights) {
      std::vector<double>& sum = all.weights.at(name).data;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient.data[i];
    }
  }
  all.dx = without(std::move(dx), kLists);
  return all;
}

}  // namespace oracles
