// One block of the model: x += attn(norm1(x)); x += mlp(norm2(x)).
#pragma once

#include <functional>
#include <utility>

#include "nsa/model/attention.h"
#include "nsa/model/layers.h"
#include "nsa/torch.h"

namespace nsa {

// What one block computed around its attention, for somebody who looks; Attention has a tap of its own.
struct BlockTrace {
  int layer = 0;
  torch::Tensor x_BSE;       // what enters the block
  torch::Tensor middle_BSE;  // x + attention, what enters norm2
  MlpTrace mlp;              // from what norm2 gave to what is added to `middle`
  // With dropout: what is added in the place of what attention and MLP gave.
  torch::Tensor attended_dropped_BSE;
  torch::Tensor mlp_dropped_BSE;
};
using BlockTap = std::function<void(const BlockTrace&)>;

// Drops a part of what a half of a block adds to the stream: site 0 the attention, 1 the MLP.
using Drop = std::function<torch::Tensor(int layer, int site, const torch::Tensor& branch_BSE)>;

// Computes the output of an attention layer for its input.
using Attend = std::function<torch::Tensor(Attention&, const torch::Tensor& x_BSE)>;

class BlockImpl : public torch::nn::Module {
 public:
  // `routes` must outlive the block.
  BlockImpl(const ModelConfig& config,
            int layer,
            const std::map<std::string, std::string>& route,
            Routes& routes);
  torch::Tensor forward(const torch::Tensor& x_BSE);
  // The block with another way through its attention (decoding).
  torch::Tensor run(const torch::Tensor& x_BSE, const Attend& attend);

  Attention& attention() { return attn_; }
  void set_tap(BlockTap tap) { tap_ = std::move(tap); }
  void set_drop(Drop drop) { drop_ = std::move(drop); }

 private:
  int layer_;
  [[nodiscard]] torch::Tensor dropped(int site, const torch::Tensor& branch_BSE) const {
    return drop_ ? drop_(layer_, site, branch_BSE) : branch_BSE;
  }

  BlockTap tap_;
  Drop drop_;
  RmsNorm norm1_{nullptr};
  Attention attn_{nullptr};
  RmsNorm norm2_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace nsa
