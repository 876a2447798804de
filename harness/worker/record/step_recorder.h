// Records what one optimiser step starts from and what it leaves behind: the tokens, logits and loss of every micro-batch, and of
// every parameter the stored value, its moments and the model's weight, before the step and after it. One file a step; the
// check step_is_oracle judges every stage of the step from it.
//
// Volume: a model of at most kWholeElements elements is recorded whole. Of a larger one whole rows of the first dimension are
// drawn, parameter by parameter, the same in every step; its values before step 1 are recorded whole by rank 0 alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/worker/record/artefact_out.h"
#include "nsa/parallel/data_parallel.h"
#include "nsa/torch.h"
#include "nsa/train/optimizer.h"

namespace harness {

class StepRecorder {
 public:
  struct Options {
    bool enabled = false;  // else every function does nothing
    int rank = 0;
    std::int64_t seed = 0;    // of the rows that are drawn
    std::int64_t micros = 1;  // micro-batches of a step
  };
  StepRecorder(const nsa::NamedParameters& parameters, nsa::Optimizer& optimizer, Options options);

  // While paused nothing is taken: a forward that is run again must not replace what was recorded.
  void pause(bool paused) { paused_ = paused; }

  // Before anything of the step has run. Its files go to `out`.
  void begin(std::int64_t step, const ArtefactOut& out);
  // The forward of one micro-batch: what entered the model, what left it, the loss, and what the backward starts from.
  void logits(const torch::Tensor& tokens_BS, const torch::Tensor& logits_BSV);
  void loss(const torch::Tensor& loss, const torch::Tensor& root);
  // After the optimiser. Writes the file of the step and tells of it.
  void end();

 private:
  static constexpr std::int64_t kWholeElements = 4'000'000;
  static constexpr std::int64_t kDrawnElements = 16'384;  // of one parameter, at least a row
  static constexpr std::int64_t kMostLogits =
      16'000'000;  // of a micro-batch; larger ones are left out

  void take_state(const std::string& suffix);
  void take(const std::string& name, std::size_t parameter, const torch::Tensor& tensor);
  void draw_rows();
  void watch_parts();
  void take_part(const std::string& parameter, const torch::Tensor& gradient);
  void write(const std::string& name, const std::vector<NamedTensor>& tensors);

  class PartHook;

  const nsa::NamedParameters& parameters_;
  nsa::Optimizer& optimizer_;
  Options options_;
  bool paused_ = false;
  bool whole_ = true;
  std::int64_t step_ = 0;
  std::optional<ArtefactOut> out_;  // of the step
  std::int64_t micro_ = -1;
  std::vector<torch::Tensor> rows_;  // of each parameter; empty where the model is recorded whole
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // of each parameter; hooked
  std::vector<NamedTensor> tensors_;
  std::vector<torch::Tensor> dlogits_;  // of each micro-batch
  std::vector<double> losses_;
  std::vector<double> roots_;
};

}  // namespace harness
