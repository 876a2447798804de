#include "harness/worker/layer_recorder.h"

#include <utility>

namespace harness {
namespace {

Exposure exposure_of(const nsa::AttentionTrace& trace, const nsa::ModelConfig& config) {
  const torch::NoGradGuard no_grad;
  const auto blocks_BGSn = trace.blocks_BGSn.to(torch::kCPU);
  const std::int64_t length = blocks_BGSn.size(2);
  const auto position_S = torch::arange(length, torch::kLong);
  const auto taken_BGS = blocks_BGSn.ge(0).sum(-1);
  const auto available_S = position_S.floor_divide(config.l_sel) + 1;
  const std::int64_t lists = blocks_BGSn.size(0) * blocks_BGSn.size(1);
  Exposure exposure;
  exposure.layer = trace.layer;
  exposure.rows = lists * length;
  exposure.rows_dropped = taken_BGS.lt(available_S).sum().item<std::int64_t>();
  exposure.rows_cut = lists * position_S.ge(config.w).sum().item<std::int64_t>();
  exposure.rows_compressed = lists * position_S.ge(config.l - 1).sum().item<std::int64_t>();
  return exposure;
}

}  // namespace

LayerRecorder::LayerRecorder(nsa::NsaLm& model, Progress& progress, bool keep_tensors)
    : model_(model), progress_(progress), keep_tensors_(keep_tensors) {
  for (int layer = 0; layer < static_cast<int>(model_->config().n_layers); ++layer) {
    model_->attention(layer)->set_tap([this](const nsa::AttentionTrace& trace) { take(trace); });
  }
}

void LayerRecorder::begin(std::int64_t step, int of_rank) {
  step_ = step;
  of_rank_ = of_rank;
  layers_.clear();
  exposures_.clear();
}

void LayerRecorder::take(const nsa::AttentionTrace& trace) {
  progress_.at_layer(trace.layer);
  exposures_.push_back(exposure_of(trace, model_->config()));
  exposures_.back().step = step_;
  if (!keep_tensors_) {
    return;
  }
  Layer& layer = layers_[trace.layer];
  layer.trace = trace;
  // Tensor hooks see the whole gradient of x and y; they return nothing and so change nothing.
  if (trace.x_BSE.requires_grad()) {
    trace.x_BSE.register_hook([&layer](const torch::Tensor& gradient) { layer.dx_BSE = gradient; });
  }
  if (trace.y_BSE.requires_grad()) {
    trace.y_BSE.register_hook([&layer](const torch::Tensor& gradient) { layer.dy_BSE = gradient; });
  }
}

void LayerRecorder::write(Channel& channel,
                          const std::string& root,
                          const std::string& folder,
                          const std::map<std::string, torch::Tensor>& local) {
  for (auto& [index, layer] : layers_) {
    const nsa::AttentionTrace& trace = layer.trace;
    std::vector<NamedTensor> tensors = {
        {"x", trace.x_BSE},         {"q", trace.q_BHSD},         {"k_cmp", trace.k_cmp_BGCD}, {"v_cmp", trace.v_cmp_BGCD},
        {"p_grp", trace.p_grp_BGSN}, {"blocks", trace.blocks_BGSn}, {"o_cmp", trace.o_cmp_BHSD},  {"o_sel", trace.o_sel_BHSD},
        {"o_win", trace.o_win_BHSD}, {"gate", trace.gate},         {"y", trace.y_BSE}};
    if (layer.dy_BSE.defined()) {
      tensors.push_back({"dy", layer.dy_BSE});
    }
    if (layer.dx_BSE.defined()) {
      tensors.push_back({"dx", layer.dx_BSE});
    }
    const std::string prefix = "blocks." + std::to_string(index) + ".attn.";
    for (const auto& item : model_->attention(index)->named_parameters()) {
      tensors.push_back({"w." + item.key(), item.value()});
      if (const auto found = local.find(prefix + item.key()); found != local.end()) {
        tensors.push_back({"g.w." + item.key(), found->second});
      }
    }
    const std::string path = folder + "/attention_layer_" + std::to_string(index) + ".safetensors";
    Artefact artefact = write_tensors(root + "/" + path, tensors);
    artefact.path = path;
    artefact.name = "attention_layer";
    artefact.step = step_;
    artefact.of_rank = of_rank_;
    artefact.layer = index;
    channel.write(artefact);
    progress_.worked(artefact.bytes);
  }
  layers_.clear();
}

void LayerRecorder::write_exposure(Channel& channel) const {
  for (const Exposure& exposure : exposures_) {
    channel.write(exposure);
  }
}

}  // namespace harness
