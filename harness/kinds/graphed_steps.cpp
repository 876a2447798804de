#include "harness/kinds/graphed_steps.h"

#include "harness/kinds/model_parts.h"

namespace harness {

GraphedSteps::GraphedSteps(Session& session, const StepParts& parts, const torch::Device& device)
    : session_(session), parts_(parts), graph_(device) {
  const nsa::TrainingConfig& training = session.the_case().scenario.training;
  parts_.optimizer.decide_on_device(training.steps);
  const auto options = torch::TensorOptions().dtype(torch::kLong).device(device);
  for (std::int64_t micro = 0; micro < training.accumulate; ++micro) {
    tokens_.push_back(torch::zeros({training.batch_size, training.seq_len}, options));
  }
}

void GraphedSteps::prepare(std::int64_t step) {
  if (!is_launched(step) || graph_.captured()) return;
  session_.enter("capture", step);
  graph_.capture([&] { work(step); });
}

void GraphedSteps::run(std::int64_t step) {
  load_tokens(step);
  if (!is_launched(step)) {
    work(step);
    return;
  }
  session_.enter("graph", step);
  graph_.launch();
  parts_.routes.ran("step", -1, nsa::kGraphName);
}

double GraphedSteps::mean_loss() const {
  double sum = 0.0;
  for (const torch::Tensor& loss : losses_) sum += loss.item<double>();
  return sum / static_cast<double>(losses_.size());
}

void GraphedSteps::load_tokens(std::int64_t step) {
  session_.enter("data", step);
  for (std::size_t micro = 0; micro < tokens_.size(); ++micro) {
    tokens_[micro].copy_(parts_.source.batch(step, static_cast<std::int64_t>(micro), 0, 1));
  }
}

void GraphedSteps::work(std::int64_t step) {
  const nsa::TrainingConfig& training = session_.the_case().scenario.training;
  losses_.clear();
  for (const torch::Tensor& tokens_BS : tokens_) {
    session_.enter("forward", step);
    const auto loss =
        nsa::next_token_loss(logits_of(parts_.model, tokens_BS, training.precision), tokens_BS);
    session_.enter("backward", step);
    parts_.optimizer.scaled(loss / training.accumulate).backward();
    losses_.push_back(loss.detach());
  }
  session_.enter("optimizer", step);
  static_cast<void>(parts_.optimizer.step_on_device());
  parts_.routes.ran("optimizer", -1, parts_.optimizer.implementation());
  for (auto& parameter : parts_.model->parameters()) parameter.mutable_grad().reset();
}

}  // namespace harness
