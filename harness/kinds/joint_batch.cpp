#include "harness/kinds/joint_batch.h"

#include <utility>

#include <torch/csrc/autograd/autograd.h>

namespace harness {
namespace {

// No recorder takes this pass for one of a rank's micro-batches.
class RecordersPaused {
 public:
  explicit RecordersPaused(TrainingParts& parts) : parts_(parts) { pause(true); }
  ~RecordersPaused() { pause(false); }
  RecordersPaused(const RecordersPaused&) = delete;
  RecordersPaused& operator=(const RecordersPaused&) = delete;

 private:
  void pause(bool paused) {
    if (parts_.recorder) parts_.recorder->pause(paused);
    parts_.step_recorder.pause(paused);
    parts_.block_recorder.pause(paused);
  }

  TrainingParts& parts_;
};

template <typename List>
void append(List& all, const List& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

void JointBatch::add(const TrainingParts& parts,
                     std::int64_t step,
                     std::int64_t micro,
                     int of_rank,
                     const torch::Tensor& tokens_BS) {
  tokens_.push_back(tokens_BS);
  append(scored_B_, parts.mask.scored(step, micro, of_rank));
  append(documents_, parts.documents.lengths(step, micro, of_rank));
}

void JointBatch::write(TrainingParts& parts, std::int64_t step) {
  const RecordersPaused paused(parts);
  const auto tokens_BS = torch::cat(tokens_);
  parts.model->set_documents(documents_);
  const auto logits_BSV = parts.model->forward(tokens_BS);
  const auto loss =
      parts.seams.loss(logits_BSV, nsa::labels_of_documents(tokens_BS, documents_), scored_B_);
  std::vector<torch::Tensor> leaves;
  for (const auto& [name, parameter] : parts.parameters) leaves.push_back(parameter);
  const auto gradients = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, true);
  auto file = parts.gradients_file(step, 0, "joint_gradients");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (gradients[i].defined()) file->put(parts.parameters[i].first, gradients[i]);
  }
  parts.finish_gradients(std::move(file), step, 0, "joint_gradients");
  *this = {};
}

}  // namespace harness
