// One NSA attention layer: it owns the weights and a set of seams, so that one layer of a model can run another
// implementation, and shows a tap what was computed. What it computes is the seam `attention`.
// Shape letters as in nsa/seams/seams.h.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "nsa/base/config.h"
#include "nsa/model/layers.h"
#include "nsa/model/packed_attention.h"
#include "nsa/seams/seams.h"
#include "nsa/seams/sequential/layer_cache.h"
#include "nsa/torch.h"

namespace nsa {

using AttentionTap = std::function<void(const AttentionTrace&)>;

class AttentionImpl : public torch::nn::Module {
 public:
  // `routes` must outlive the layer.
  AttentionImpl(const ModelConfig& config, int layer, AttentionSeams seams, Routes& routes);
  torch::Tensor forward(const torch::Tensor& x_BSE);
  // The sequences of the next forwards hold these documents; none: each is one document. Not for prefill() and step().
  void set_documents(DocumentLengths documents) {
    share_documents(packed_documents(std::move(documents)));
  }
  void share_documents(std::shared_ptr<const PackedDocuments> documents) {
    documents_ = std::move(documents);
  }
  // forward(), and leaves in `cache` what decoding goes on with; its reads are this forward's.
  torch::Tensor prefill(const torch::Tensor& x_BSE, LayerCache& cache);
  // The token at position cache.length.
  torch::Tensor step(const torch::Tensor& x_B1E, LayerCache& cache);

  AttentionSeams& seams() { return seams_; }  // a fault or plugin puts itself here
  void set_tap(AttentionTap tap) { tap_ = std::move(tap); }
  // Constant gates (cmp, sel, win) instead of the learned ones, until it is set to nothing.
  void set_gate_override(GateOverride gates) { gate_override_ = gates; }

  [[nodiscard]] SeamContext context() const {
    return {config_, layer_, routes_, gate_override_, 0, nullptr, tap_ != nullptr};
  }
  [[nodiscard]] AttentionWeights weights() const;

 private:
  torch::nn::Linear projection(const char* name, std::int64_t outputs);
  torch::Tensor shown(const AttentionTrace& trace) const;
  [[nodiscard]] AttentionTrace attended(const torch::Tensor& x_BSE) const;
  [[nodiscard]] AttentionTrace attended_apart(const torch::Tensor& x_BSE) const;

  ModelConfig config_;
  int layer_;
  AttentionSeams seams_;
  Routes& routes_;
  AttentionTap tap_;
  GateOverride gate_override_;
  std::shared_ptr<const PackedDocuments> documents_;
  torch::nn::Linear W_Q_{nullptr}, W_K_sel_{nullptr}, W_V_sel_{nullptr}, W_K_win_{nullptr},
      W_V_win_{nullptr}, W_K_cmp_{nullptr}, W_V_cmp_{nullptr}, out_{nullptr};
  GateLayer gate_{nullptr};
  PhiConv phi_k_conv_{nullptr}, phi_v_conv_{nullptr};  // phi conv
  PhiMlp phi_k_{nullptr}, phi_v_{nullptr};             // phi mlp
};
TORCH_MODULE(Attention);

}  // namespace nsa
