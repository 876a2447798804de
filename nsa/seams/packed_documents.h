// The documents that the sequences of a batch are packed of, for what attends to all of them in one call: where each begins among
// the tokens of the whole batch, sequence after sequence, document after document. T counts those tokens.
// Made once for all layers; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "nsa/torch.h"

namespace nsa {

// Of each sequence of a batch, how many tokens each of its documents has: numbers above 0 whose sum is S.
using DocumentLengths = std::vector<std::vector<std::int64_t>>;

class PackedDocuments {
 public:
  explicit PackedDocuments(DocumentLengths lengths);

  [[nodiscard]] const DocumentLengths& lengths() const { return lengths_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t longest() const { return longest_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  // Throws: c10::Error where these are not documents of a batch [B,S,..].
  void require_of(const torch::Tensor& x_BSE) const;

  struct Places {
    torch::Tensor starts;       // int32 [count+1], the last one T: cu_seqlens
    torch::Tensor positions_T;  // int64, of each token within its document
  };
  // Copied there at the first call, without a wait of the host.
  [[nodiscard]] const Places& places(const torch::Device& device) const;

 private:
  DocumentLengths lengths_;
  std::int64_t count_ = 0;
  std::int64_t longest_ = 0;
  std::int64_t tokens_ = 0;
  mutable std::mutex mutex_;
  mutable std::optional<Places> places_;
};

// None of no lengths: each sequence is one document.
[[nodiscard]] inline std::shared_ptr<const PackedDocuments> packed_documents(
    DocumentLengths lengths) {
  if (lengths.empty()) return nullptr;
  return std::make_shared<const PackedDocuments>(std::move(lengths));
}

}  // namespace nsa
