#include "nsa/seams/reference/masked_attention.h"
#include "nsa/seams/reference/reference.h"

namespace nsa::reference {
namespace {

// [B,G,C,D,l]: the raw tokens i*d .. i*d+l-1 of each compressed token i. Attached to the graph even where C is 0, so that
// every weight gets a gradient of zeros there.
Tensor windows(const ModelConfig& config, const Tensor& raw_BGSD) {
  if (raw_BGSD.size(2) >= config.l) return raw_BGSD.unfold(2, config.l, config.d);
  return raw_BGSD.slice(2, 0, 0).unsqueeze(-1).expand({-1, -1, -1, -1, config.l});
}

// phi `conv`: one filter of length l for each channel, the same for all groups (golden README, "Compression").
Tensor convolved(const Tensor& windows_BGCDl, const PhiWeights& weights) {
  return (windows_BGCDl * wide(weights.conv).squeeze(1)).sum(-1);
}

// phi `mlp`: fc2 silu(fc1 f), f the window's tokens one after the other, each with its position encoding.
Tensor mixed(const Tensor& windows_BGCDl, const PhiWeights& weights, torch::ScalarType type) {
  const Tensor f_BGCK = (windows_BGCDl.transpose(3, 4) + wide(weights.pe)).flatten(3).to(type);
  return torch::linear(torch::silu(torch::linear(f_BGCK, weights.fc1_weight)), weights.fc2_weight);
}

// `type` is that of the raw tokens, which the windows may be wider than.
Tensor pooled(const ModelConfig& config,
              const Tensor& windows_BGCDl,
              const PhiWeights& weights,
              torch::ScalarType type) {
  switch (config.phi) {
    case Phi::avg: return windows_BGCDl.mean(-1).to(type);
    case Phi::conv: return convolved(windows_BGCDl, weights).to(type);
    case Phi::mlp: return mixed(windows_BGCDl, weights, type);
  }
  TORCH_CHECK(false, "unknown phi");
}

}  // namespace

// phi (arXiv 2502.11089 Eq. 7): l raw tokens, every d, become one compressed token.
Tensor compress(const SeamContext& context,
                const Tensor& raw_BGSD,
                Pooled /*what*/,
                const PhiWeights& weights) {
  const auto& config = context.config;
  // Widened before the windows are cut: a token's gradients from all windows that hold it are added in float32.
  const Tensor pooled_BGCD =
      pooled(config, windows(config, wide(raw_BGSD)), weights, raw_BGSD.scalar_type());
  context.routes.ran("compress", context.layer, "reference", pooled_BGCD);
  return pooled_BGCD;
}

}  // namespace nsa::reference
