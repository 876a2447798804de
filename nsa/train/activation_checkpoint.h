// Activation checkpointing: a block keeps only its input and computes everything else again in the backward (Chen et al.,
// arXiv 1604.06174). Two forms, since one of them is a historic failure:
//   functional  the block's parameters are inputs of the autograd node and their gradients its outputs: each parameter
//               becomes ready once, where a reducer expects it;
//   nested      the node knows the input only and runs a backward of its own inside the backward: parameters become ready
//               in there, and a walk from the loss does not find them.
// RNG state and autocast are what they were in the forward. Installed once a model, before its first forward.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "nsa/base/config.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/seams/routes.h"
#include "nsa/torch.h"

namespace nsa {

// What one checkpointed layer does; a fault puts itself here.
struct CheckpointSeam {
  // x [B,S,E] -> y [B,S,E], called without a graph.
  std::function<torch::Tensor(Block& block, const torch::Tensor& x_BSE)> forward;
  // The same again with a graph, and through it: dy -> dx, followed in functional form by the gradients of
  // block->parameters() in order (undefined where there is none); in nested form these are accumulated on the way.
  std::function<torch::autograd::variable_list(
      Block& block, const torch::Tensor& x_BSE, const torch::Tensor& dy_BSE)>
      backward;
};

// Told on the thread that computes.
struct CheckpointObserver {
  std::function<void(int layer, const torch::Tensor& y_BSE)> computed;
  std::function<void(int layer, const torch::Tensor& y_BSE)> recomputed;
};

class ActivationCheckpoint {
 public:
  // Puts the layers of config.checkpoint_layers of `model` under checkpointing. `routes` counts seam "checkpoint", a forward
  // and a backward a run; both outlive the model's backwards, and so does this.
  ActivationCheckpoint(NsaLm& model, const ParallelConfig& config, Routes& routes);
  ActivationCheckpoint(const ActivationCheckpoint&) = delete;
  ActivationCheckpoint& operator=(const ActivationCheckpoint&) = delete;

  [[nodiscard]] const std::vector<int>& layers() const { return layers_; }
  // Throws: std::out_of_range for a layer that is not checkpointed.
  CheckpointSeam& seam(int layer) { return seams_.at(layer); }
  // While paused every layer runs plainly: a look at the model must not go through its backward.
  void pause(bool paused) { paused_ = paused; }
  void observe(CheckpointObserver observer) { observer_ = std::move(observer); }

 private:
  torch::Tensor recomputed(int layer, Block& block, const torch::Tensor& x_BSE);
  CheckpointSeam functional(int layer);
  CheckpointSeam nested(int layer);
  void keep_blocks(AttentionSeams& seams);

  Routes& routes_;
  std::vector<int> layers_;
  std::map<int, CheckpointSeam> seams_;
  CheckpointObserver observer_;
  bool paused_ = false;
};

// The checkpointed layer that this thread computes again; -1 when it does not.
[[nodiscard]] int recomputing_layer();
[[nodiscard]] inline bool is_recomputing() {
  return recomputing_layer() >= 0;
}

// The parameters that a nested checkpoint's node accumulates into; empty for any other node.
[[nodiscard]] std::vector<torch::Tensor> nested_parameters(const torch::autograd::Node& node);

}  // namespace nsa
