#include "nsa/seams/packed_documents.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nsa {
namespace {

using torch::Tensor;

// Pinned memory is copied while the host goes on.
template <typename Number>
Tensor copied(const std::vector<Number>& numbers, const torch::Device& device) {
  const auto options = torch::TensorOptions()
                           .dtype(c10::CppTypeToScalarType<Number>())
                           .pinned_memory(device.is_cuda());
  const Tensor host = torch::empty({static_cast<std::int64_t>(numbers.size())}, options);
  std::copy(numbers.begin(), numbers.end(), host.template data_ptr<Number>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace

PackedDocuments::PackedDocuments(DocumentLengths lengths) : lengths_(std::move(lengths)) {
  for (const auto& sequence : lengths_) {
    for (const std::int64_t length : sequence) {
      ++count_;
      longest_ = std::max(longest_, length);
      tokens_ += length;
    }
  }
}

void PackedDocuments::require_of(const Tensor& x_BSE) const {
  TORCH_CHECK(static_cast<std::int64_t>(lengths_.size()) == x_BSE.size(0),
              "documents of ",
              lengths_.size(),
              " sequences, wanted ",
              x_BSE.size(0));
  for (const auto& sequence : lengths_) {
    const bool any_empty =
        std::any_of(sequence.begin(), sequence.end(), [](std::int64_t n) { return n < 1; });
    const std::int64_t sum = std::accumulate(sequence.begin(), sequence.end(), std::int64_t{0});
    TORCH_CHECK(!any_empty && sum == x_BSE.size(1),
                "documents with ",
                sum,
                " tokens in a sequence of ",
                x_BSE.size(1));
  }
}

const PackedDocuments::Places& PackedDocuments::places(const torch::Device& device) const {
  const std::lock_guard lock(mutex_);
  if (!places_ || places_->starts.device() != device) {
    std::vector<std::int32_t> starts = {0};
    std::vector<std::int64_t> positions;
    positions.reserve(static_cast<std::size_t>(tokens_));
    for (const auto& sequence : lengths_) {
      for (const std::int64_t length : sequence) {
        starts.push_back(static_cast<std::int32_t>(starts.back() + length));
        for (std::int64_t t = 0; t < length; ++t) positions.push_back(t);
      }
    }
    places_ = Places{copied(starts, device), copied(positions, device)};
  }
  return *places_;
}

}  // namespace nsa
