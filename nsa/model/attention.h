// One NSA attention layer: projections, then the seams in order. It owns its weights and its set of seams, so that one layer
// of a model can run another implementation, and shows a tap what it computed.
// Shape letters as in nsa/seams/seams.h; E width of the residual stream.
#pragma once

#include <functional>
#include <utility>

#include <torch/torch.h>

#include "nsa/base/config.h"
#include "nsa/model/layers.h"
#include "nsa/seams/seams.h"

namespace nsa {

// What one attention layer computed in one forward: for recorders. All tensors as they were used, attached to the graph.
struct AttentionTrace {
  int layer = 0;
  torch::Tensor x_BSE;   // input of the layer (after norm1)
  torch::Tensor q_BHSD;  // rotated
  torch::Tensor k_cmp_BGCD, v_cmp_BGCD;
  torch::Tensor p_grp_BGSN;
  torch::Tensor blocks_BGSn;
  torch::Tensor o_cmp_BHSD, o_sel_BHSD, o_win_BHSD;
  torch::Tensor gate_BGS3;
  torch::Tensor y_BSE;  // output, before the residual sum
};
using AttentionTap = std::function<void(const AttentionTrace&)>;

class AttentionImpl : public torch::nn::Module {
 public:
  // `routes` must outlive the layer.
  AttentionImpl(const ModelConfig& config, int layer, AttentionSeams seams, Routes& routes);
  torch::Tensor forward(const torch::Tensor& x_BSE);

  AttentionSeams& seams() { return seams_; }  // a fault or plugin puts itself here
  void set_tap(AttentionTap tap) { tap_ = std::move(tap); }

 private:
  torch::nn::Linear projection(const char* name, std::int64_t outputs);
  void compressed_branch(const SeamContext& context, AttentionTrace& trace);
  void selected_branch(const SeamContext& context, AttentionTrace& trace);
  void window_branch(const SeamContext& context, AttentionTrace& trace);

  ModelConfig config_;
  int layer_;
  AttentionSeams seams_;
  Routes& routes_;
  AttentionTap tap_;
  torch::nn::Linear W_Q_{nullptr}, W_K_sel_{nullptr}, W_V_sel_{nullptr}, W_K_win_{nullptr},
      W_V_win_{nullptr}, W_K_cmp_{nullptr}, W_V_cmp_{nullptr}, out_{nullptr};
  GateMlp gate_{nullptr};
};
TORCH_MODULE(Attention);

}  // namespace nsa
