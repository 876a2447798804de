// The NSA language model (SPEC 2): embedding, blocks of attention and MLP, head. Plain LibTorch module; parameter names and
// initialisation as in SPEC 2. Knows nothing of ranks, training or tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "nsa/base/config.h"
#include "nsa/seams/seams.h"

namespace nsa {

// What one attention layer computed in one forward: for recorders. All tensors as they were used, attached to the graph.
struct AttentionTrace {
  int layer = 0;
  torch::Tensor x_BSE;         // input of the layer (after norm1)
  torch::Tensor q_BHSD;        // rotated
  torch::Tensor k_cmp_BGCD, v_cmp_BGCD;
  torch::Tensor p_grp_BGSN;
  torch::Tensor blocks_BGSn;
  torch::Tensor o_cmp_BHSD, o_sel_BHSD, o_win_BHSD;
  torch::Tensor gate_BGS3;
  torch::Tensor y_BSE;         // output, before the residual sum
};
using AttentionTap = std::function<void(const AttentionTrace&)>;

class AttentionImpl : public torch::nn::Module {
 public:
  AttentionImpl(const ModelConfig& config, int layer, AttentionSeams seams, Routes& routes);
  torch::Tensor forward(const torch::Tensor& x_BSE);

  AttentionSeams& seams() { return seams_; }   // a fault or plugin puts itself here
  void set_tap(AttentionTap tap) { tap_ = std::move(tap); }

 private:
  ModelConfig config_;
  int layer_;
  AttentionSeams seams_;
  Routes& routes_;
  AttentionTap tap_;
  torch::nn::Linear W_Q_{nullptr}, W_K_sel_{nullptr}, W_V_sel_{nullptr}, W_K_win_{nullptr}, W_V_win_{nullptr},
      W_K_cmp_{nullptr}, W_V_cmp_{nullptr}, out_{nullptr};
  torch::nn::Sequential gate_{nullptr};
};
TORCH_MODULE(Attention);

class NsaLmImpl : public torch::nn::Module {
 public:
  // Parameters are drawn from torch's default generator, in the order of named_parameters().
  // `routes` must outlive the model. Throws: Error from make_attention_seams().
  NsaLmImpl(const ModelConfig& config, const std::map<std::string, std::string>& route, Routes& routes);

  torch::Tensor forward(const torch::Tensor& tokens_BS);   // int64 -> logits [B,S,V]
  Attention& attention(int layer);
  [[nodiscard]] const ModelConfig& config() const { return config_; }

 private:
  ModelConfig config_;
};
TORCH_MODULE(NsaLm);

// Mean cross entropy of logits[:, :-1] against tokens[:, 1:], over B*(S-1) positions.
[[nodiscard]] torch::Tensor next_token_loss(const torch::Tensor& logits_BSV, const torch::Tensor& tokens_BS);

}  // namespace nsa
