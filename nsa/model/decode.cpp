#include "nsa/model/decode.h"

namespace nsa {

Decoder::Decoder(NsaLm model)
    : model_(std::move(model)), caches_(static_cast<std::size_t>(model_->config().n_layers)) {}

torch::Tensor Decoder::prefill(const torch::Tensor& tokens_BS) {
  TORCH_CHECK(tokens_BS.size(1) >= 1, "a prefill needs a token");
  std::size_t layer = 0;
  return model_->run(tokens_BS, [&](Attention& attention, const torch::Tensor& x_BSE) {
    return attention->prefill(x_BSE, caches_.at(layer++));
  });
}

torch::Tensor Decoder::step(const torch::Tensor& tokens_B) {
  std::size_t layer = 0;
  const auto logits_B1V =
      model_->run(tokens_B.unsqueeze(1), [&](Attention& attention, const torch::Tensor& x_B1E) {
        return attention->step(x_B1E, caches_.at(layer++));
      });
  return logits_B1V.squeeze(1);
}

}  // namespace nsa
