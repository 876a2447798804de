// The NSA language model: embedding, blocks of attention and MLP, head. Plain LibTorch module; parameter names and
// initial values are those that docs/data.md writes down. Knows nothing of ranks, training or tests.
// Shape letters: B batch, S position, V vocabulary; others as in nsa/seams/seams.h.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsa/base/config.h"
#include "nsa/model/attention.h"
#include "nsa/model/block.h"
#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace nsa {

// What was computed after the last block, for somebody who looks.
struct HeadTrace {
  torch::Tensor x_BSE;       // what enters norm_f
  torch::Tensor normed_BSE;  // what enters lm_head
};
using HeadTap = std::function<void(const HeadTrace&)>;

// How one block is run: its forward, or with activation checkpointing.
using RunBlock = std::function<torch::Tensor(Block& block, const torch::Tensor& x_BSE)>;

class NsaLmImpl : public torch::nn::Module {
 public:
  // Parameters are drawn from torch's default generator, in the order of named_parameters(): embed, blocks, norm_f, lm_head.
  // `routes` must outlive the model. Throws: Error from make_attention_seams().
  NsaLmImpl(const ModelConfig& config,
            const std::map<std::string, std::string>& route,
            Routes& routes);

  torch::Tensor forward(const torch::Tensor& tokens_BS);  // int64 -> logits [B,S,V]
  // forward() with another way through the attention of each layer, in order (decoding).
  torch::Tensor run(const torch::Tensor& tokens_BS, const Attend& attend);
  Attention& attention(int layer);
  Block& block(int layer) { return blocks_.at(static_cast<std::size_t>(layer)); }
  // What the head multiplies with: lm_head.weight, or of a tied head embed.weight, if nothing else was put in its place.
  [[nodiscard]] const torch::Tensor& head_weight() const;
  void set_head_weight(torch::Tensor weight_VE) { other_head_VE_ = std::move(weight_VE); }
  void set_head_tap(HeadTap tap) { head_tap_ = std::move(tap); }
  // As AttentionImpl::set_documents(), of every layer.
  void set_documents(DocumentLengths documents);
  // Stands for block(layer)->forward() in forward().
  void set_run_block(int layer, RunBlock run);
  [[nodiscard]] const ModelConfig& config() const { return config_; }

 private:
  [[nodiscard]] torch::Tensor embedded(const torch::Tensor& tokens_BS);
  torch::Tensor logits(const torch::Tensor& x_BSE);

  ModelConfig config_;
  HeadTap head_tap_;
  torch::nn::Embedding embed_{nullptr};
  std::vector<Block> blocks_;
  std::map<int, RunBlock> run_block_;
  RmsNorm norm_f_{nullptr};
  torch::nn::Linear lm_head_{nullptr};  // none where the head is tied
  torch::Tensor other_head_VE_;
};
TORCH_MODULE(NsaLm);

// Mean cross entropy of logits[:, :-1] against tokens[:, 1:], over B*(S-1) positions, float32 at least; with `scored_B` over the
// first positions of each row alone, so many. A token of -100 is not scored (documents.h).
// REQUIRES: S >= 2; scored_B is empty, or of B numbers of 1..S-1.
[[nodiscard]] torch::Tensor next_token_loss(const torch::Tensor& logits_BSV,
                                            const torch::Tensor& tokens_BS,
                                            const std::vector<std::int64_t>& scored_B = {});

}  // namespace nsa
