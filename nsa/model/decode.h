// Decoding: the whole prompt at once, then one token at a time from caches. prefill(S) and k steps equal prefill(S+k) in
// logits, selected blocks (shown to the layers' taps) and reads. Shares the model's weights, seams and taps; owns the caches.
// Not thread-safe. Shape letters as in nsa/model/nsa_lm.h.
#pragma once

#include <vector>

#include "nsa/model/nsa_lm.h"
#include "nsa/seams/sequential/layer_cache.h"
#include "nsa/torch.h"

namespace nsa {

class Decoder {
 public:
  explicit Decoder(NsaLm model);

  // Forgets what was before. tokens [B,S] int64, S >= 1 -> logits [B,S,V].
  torch::Tensor prefill(const torch::Tensor& tokens_BS);
  // The next token of each sequence [B] -> logits [B,V]. Without a prefill it is the first.
  torch::Tensor step(const torch::Tensor& tokens_B);

  [[nodiscard]] std::int64_t length() const { return caches_.front().length; }
  // Since the last prefill, its own included.
  [[nodiscard]] const Reads& reads(int layer) const { return cache(layer).reads; }
  // What is held now.
  [[nodiscard]] const LayerCache& cache(int layer) const {
    return caches_.at(static_cast<std::size_t>(layer));
  }

 private:
  NsaLm model_;
  std::vector<LayerCache> caches_;  // of each layer
};

}  // namespace nsa
