// What one layer remembers between tokens: keys and values of the three branches, and the raw tokens that no compressed
// token covers completely yet. Owned by who decodes; one batch of sequences of equal length. What is read from it is counted
// where it is read. Shape letters as in nsa/seams/seams.h; T tokens appended or read at once.
#pragma once

#include <cstdint>

#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace nsa {

struct KeysValues {
  torch::Tensor k_BGTD;
  torch::Tensor v_BGTD;
};

// Keys and values, token after token. Without gradient they lie in one buffer that grows by doubling; what was handed out
// stays as it was. With gradient each append makes new tensors, attached to the graph.
class TokenCache {
 public:
  void append(const KeysValues& tokens);
  // Forgets the oldest ones. REQUIRES: tokens <= size().
  void drop_front(std::int64_t tokens);
  [[nodiscard]] std::int64_t size() const { return size_; }

  // No copy. REQUIRES: something was appended, be it of no length.
  [[nodiscard]] KeysValues all() const;
  // Tokens at index [B,G,K], counted from the oldest held -> [B,G,K,D].
  [[nodiscard]] KeysValues gather(const torch::Tensor& index_BGK) const;

 private:
  torch::Tensor k_BGTD_, v_BGTD_;  // capacity begin_ + size_ or more
  std::int64_t begin_ = 0;
  std::int64_t size_ = 0;
};

struct LayerCache {
  std::int64_t length = 0;  // tokens so far: the position of the next
  TokenCache pending;       // raw tokens from the first on that the next compressed token covers
  TokenCache cmp;           // compressed
  TokenCache sel;           // all tokens
  TokenCache win;           // the last w
  Reads reads;
};

// The caches after the positions 0 .. S-1 that the trace is of. The reads are left at zero.
[[nodiscard]] LayerCache cache_of(const ModelConfig& config, const AttentionTrace& trace);

}  // namespace nsa
