// One block of the model: x += attn(norm1(x)); x += mlp(norm2(x)) (SPEC 2).
#pragma once

#include <torch/torch.h>

#include "nsa/model/attention.h"
#include "nsa/model/layers.h"

namespace nsa {

class BlockImpl : public torch::nn::Module {
 public:
  // `routes` must outlive the block.
  BlockImpl(const ModelConfig& config, int layer, AttentionSeams seams, Routes& routes);
  torch::Tensor forward(const torch::Tensor& x_BSE);

  Attention& attention() { return attn_; }

 private:
  RmsNorm norm1_{nullptr};
  Attention attn_{nullptr};
  RmsNorm norm2_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace nsa
