// Attention of one chunk of queries under a mask, and how a layer's queries are cut into chunks. Shared by the reference
// implementations of score and attend_*. Letters as in reference.h.
#pragma once

#include <cstdint>
#include <functional>

#include "nsa/base/config.h"
#include "nsa/torch.h"

namespace nsa::reference {

// float32 in place of bf16 and fp16, in which neither sums of scores nor a softmax may be taken; else the tensor itself.
[[nodiscard]] torch::Tensor wide(const torch::Tensor& tensor);

struct Rows {  // queries first .. last-1
  std::int64_t first = 0;
  std::int64_t last = 0;
  [[nodiscard]] std::int64_t count() const { return last - first; }
};

// Rows of a chunk such that rows * `row_bytes` <= `chunk_bytes`; between 1 and 256: beyond that a chunk only computes
// more keys that its first queries may not see.
[[nodiscard]] std::int64_t rows_per_chunk(std::int64_t row_bytes, std::int64_t chunk_bytes);

// One call of `one_chunk` for each chunk; its results are joined along `dim`.
[[nodiscard]] torch::Tensor join_chunks(std::int64_t length,
                                        std::int64_t rows,
                                        std::int64_t dim,
                                        const std::function<torch::Tensor(Rows)>& one_chunk);

// softmax over the allowed keys of q.k / sqrt(d_k) (arXiv 2502.11089 Eq. 2), float32 at least. allowed_PTK (P may be 1) is true
// where a query may see a key. A row without any has no meaning here: its caller sets it to zero.
[[nodiscard]] torch::Tensor probabilities(const torch::Tensor& q_PhTD,
                                          const torch::Tensor& k_PKD,
                                          const torch::Tensor& allowed_PTK);

// probabilities * v -> [P,h,T,d_v] in q's dtype; k and v may be wider than q, where a caller adds up their gradients. Rows without
// keys are exact zeros and give exact zero gradients.
[[nodiscard]] torch::Tensor masked_attention(const torch::Tensor& q_PhTD,
                                             const torch::Tensor& k_PKD,
                                             const torch::Tensor& v_PKD,
                                             const torch::Tensor& allowed_PTK);

// Keys that `pairs` pairs of batch and group read under a mask [P or 1,T,K].
[[nodiscard]] std::int64_t keys_read(const torch::Tensor& allowed_PTK, std::int64_t pairs);

// Compressed tokens that a query at position `last` can see: those i with i*d + l - 1 <= last.
[[nodiscard]] std::int64_t visible_compressed(const ModelConfig& config, std::int64_t last);

// [1,T,K]: which of the first `keys` compressed tokens each query can see; queries at positions `at`.
[[nodiscard]] torch::Tensor compressed_mask(const ModelConfig& config,
                                            Rows at,
                                            std::int64_t keys,
                                            torch::Device device);

// The keys from `first` to `last`-1 are all that a chunk's queries can see; allowed_TK: which query sees which of them.
struct SeenKeys {
  std::int64_t first = 0;
  std::int64_t last = 0;
  torch::Tensor allowed_TK;
};
// Of the window branch, for queries at positions `at`.
[[nodiscard]] SeenKeys window_keys(const ModelConfig& config, Rows at, torch::Device device);

// Rows of a chunk of the window branch over `keys` keys, and of a branch in which a query may see all of them.
[[nodiscard]] std::int64_t window_rows(const ModelConfig& config,
                                       const torch::Tensor& q_BHSD,
                                       std::int64_t keys,
                                       std::int64_t chunk_bytes);
[[nodiscard]] std::int64_t rows_over_keys(const torch::Tensor& q_BHSD,
                                          std::int64_t keys,
                                          std::int64_t chunk_bytes);

// start .. end-1, int64
[[nodiscard]] torch::Tensor positions(std::int64_t start, std::int64_t end, torch::Device device);

// [B,H,S,D] -> [B*G,h,S,D]
[[nodiscard]] torch::Tensor group_heads(const torch::Tensor& x_BHSD, std::int64_t groups);

}  // namespace nsa::reference
