#include "harness/kinds/joint_batch.h"

#include <torch/csrc/autograd/autograd.h>

namespace harness {
namespace {

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
  parts.pause_recorders(true);
  const auto tokens_BS = torch::cat(tokens_);
  parts.model->set_documents(documents_);
  const auto logits_BSV = parts.model->forward(tokens_BS);
  const auto loss =
      parts.seams.loss(logits_BSV, nsa::labels_of_documents(tokens_BS, documents_), scored_B_);
  std::vector<torch::Tensor> leaves;
  for (const auto& [name, parameter] : parts.parameters) leaves.push_back(parameter);
  const auto gradients = torch::autograd::grad({loss}, leaves, {}, std::nullopt, false, true);
  parts.pause_recorders(false);
  auto file = parts.gradients_file(step, 0, "joint_gradients");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (gradients[i].defined()) file->put(parts.parameters[i].first, gradients[i]);
  }
  parts.finish_gradients(std::move(file), step, 0, "joint_gradients");
  *this = {};
}

}  // namespace harness
