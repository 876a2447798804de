#include "nsa/seams/by_hand/by_hand.h"

namespace nsa::by_hand {
namespace {

// [B,G,C,l,D]: the tokens i*d .. i*d+l-1 of each compressed token i.
Tensor windows_of(const ModelConfig& config, const Tensor& raw_BGSD) {
  const std::int64_t count = config.compressed_len(raw_BGSD.size(2));
  const auto options = torch::dtype(torch::kLong).device(raw_BGSD.device());
  const Tensor token_Cl =
      torch::arange(count, options).unsqueeze(1) * config.d + torch::arange(config.l, options);
  return raw_BGSD.to(torch::kDouble)
      .index_select(2, token_Cl.flatten())
      .unflatten(2, {count, config.l});
}

Tensor pooled(const ModelConfig& config, const Tensor& windows_BGClD, const PhiWeights& weights) {
  switch (config.phi) {
    case Phi::avg: return windows_BGClD.sum(3) / static_cast<double>(config.l);
    case Phi::conv: {
      const Tensor filter_lD = weights.conv.to(torch::kDouble).select(1, 0).transpose(0, 1);
      return (windows_BGClD * filter_lD).sum(3);
    }
    case Phi::mlp: {
      const Tensor f_BGCK = (windows_BGClD + weights.pe.to(torch::kDouble)).flatten(3);
      const Tensor hidden = torch::matmul(f_BGCK, weights.fc1_weight.to(torch::kDouble).t());
      return torch::matmul(hidden * torch::sigmoid(hidden),
                           weights.fc2_weight.to(torch::kDouble).t());
    }
  }
  TORCH_CHECK(false, "unknown phi");
}

}  // namespace

Tensor compress(const SeamContext& context,
                const Tensor& raw_BGSD,
                Pooled /*what*/,
                const PhiWeights& weights) {
  const Tensor pooled_BGCD = pooled(context.config, windows_of(context.config, raw_BGSD), weights)
                                 .to(raw_BGSD.scalar_type());
  context.routes.ran("compress", context.layer, kName, pooled_BGCD);
  return pooled_BGCD;
}

}  // namespace nsa::by_hand
