#include "nsa/model/block.h"

namespace nsa {

BlockImpl::BlockImpl(const ModelConfig& config,
                     int layer,
                     const std::map<std::string, std::string>& route,
                     Routes& routes)
    : layer_(layer),
      norm1_(register_module("norm1", RmsNorm(config.dim, make_norm(route, routes, layer)))),
      attn_(register_module("attn",
                            Attention(config, layer, make_attention_seams(config, route), routes))),
      norm2_(register_module("norm2", RmsNorm(config.dim, make_norm(route, routes, layer)))),
      mlp_(register_module(
          "mlp",
          Mlp(config.dim, config.mlp_ratio * config.dim, make_mlp_down(route, routes, layer)))) {}

torch::Tensor BlockImpl::forward(const torch::Tensor& x_BSE) {
  return run(x_BSE, [](Attention& attention, const torch::Tensor& h_BSE) {
    return attention->forward(h_BSE);
  });
}

torch::Tensor BlockImpl::run(const torch::Tensor& x_BSE, const Attend& attend) {
  const auto attended_BSE = dropped(0, attend(attn_, norm1_(x_BSE)));
  const auto h_BSE = x_BSE + attended_BSE;
  MlpTrace seen;
  MlpTap tap;
  if (tap_) tap = [&](const MlpTrace& mlp) { seen = mlp; };
  const auto added_BSE = dropped(1, mlp_(norm2_(h_BSE), tap));
  if (tap_ && drop_) tap_({layer_, x_BSE, h_BSE, seen, attended_BSE, added_BSE});
  if (tap_ && !drop_) tap_({layer_, x_BSE, h_BSE, seen, {}, {}});
  return h_BSE + added_BSE;
}

}  // namespace nsa
