#include "harness/worker/record/block_recorder.h"

#include "nsa/train/activation_checkpoint.h"

namespace harness {
namespace {

constexpr int kHead = -1;

std::vector<NamedTensor> tensors_of_block(const nsa::BlockTrace& trace) {
  std::vector<NamedTensor> tensors = {{"x", trace.x_BSE},
                                      {"middle", trace.middle_BSE},
                                      {"normed", trace.mlp.x_BSE},
                                      {"hidden", trace.mlp.hidden_BSF},
                                      {"activated", trace.mlp.activated_BSF},
                                      {"mlp", trace.mlp.y_BSE}};
  if (trace.attended_dropped_BSE.defined()) {
    tensors.push_back({"attended_dropped", trace.attended_dropped_BSE});
    tensors.push_back({"mlp_dropped", trace.mlp_dropped_BSE});
  }
  return tensors;
}

std::vector<std::string> weights_of_part(int layer) {
  if (layer == kHead) return {"embed.weight", "norm_f.weight", "lm_head.weight"};
  const std::string block = "blocks." + std::to_string(layer) + ".";
  return {block + "norm1.weight",
          block + "norm2.weight",
          block + "mlp.fc1.weight",
          block + "mlp.fc2.weight"};
}

}  // namespace

BlockRecorder::BlockRecorder(nsa::NsaLm& model, bool enabled) : model_(model), enabled_(enabled) {
  if (!enabled_) return;
  for (int layer = 0; layer < static_cast<int>(model_->config().n_layers); ++layer) {
    model_->block(layer)->set_tap(
        [this](const nsa::BlockTrace& trace) { take(trace.layer, tensors_of_block(trace)); });
  }
  model_->set_head_tap([this](const nsa::HeadTrace& trace) {
    take(kHead, {{"x", trace.x_BSE}, {"normed", trace.normed_BSE}});
  });
}

void BlockRecorder::begin(std::int64_t step, int of_rank) {
  step_ = step;
  of_rank_ = of_rank;
  parts_.clear();
}

// Tensor hooks see the whole gradient; they return nothing and so change nothing. What is computed again has its graph only
// then, and its values are those of the forward that was recorded.
void BlockRecorder::take(int layer, const std::vector<NamedTensor>& tensors) {
  if (paused_) return;
  const bool again = nsa::is_recomputing();
  if (again && nsa::recomputing_layer() != layer) return;
  Part& part = parts_[layer];
  if (!again) part.tensors = tensors;
  for (const NamedTensor& item : tensors) {
    if (!item.tensor.requires_grad()) continue;
    item.tensor.register_hook([&part, name = "d." + item.name](const torch::Tensor& gradient) {
      part.gradients[name] = gradient;
    });
  }
}

void BlockRecorder::write_part(int layer,
                               const Part& part,
                               const std::vector<std::string>& weights,
                               const ArtefactOut& out,
                               const std::map<std::string, torch::Tensor>& local) {
  std::vector<NamedTensor> tensors = part.tensors;
  for (const auto& [name, gradient] : part.gradients) tensors.push_back({name, gradient});
  for (const std::string& weight : weights) {
    const auto found = local.find(weight);
    if (found != local.end()) tensors.push_back({"g." + weight, found->second});
  }
  out.write({.step = step_,
             .of_rank = of_rank_,
             .name = layer == kHead ? "head_stages" : "block_stages",
             .layer = layer},
            tensors);
}

void BlockRecorder::write(const ArtefactOut& out,
                          const std::map<std::string, torch::Tensor>& local) {
  for (const auto& [layer, part] : parts_) {
    write_part(layer, part, weights_of_part(layer), out, local);
  }
  parts_.clear();
}

}  // namespace harness
