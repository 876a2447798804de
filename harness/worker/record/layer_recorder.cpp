#include "harness/worker/record/layer_recorder.h"

#include <utility>

#include "harness/worker/record/exposure.h"
#include "nsa/base/hash.h"
#include "nsa/train/activation_checkpoint.h"

namespace harness {
namespace {

GateUse gate_use_of(const nsa::AttentionTrace& trace) {
  const torch::NoGradGuard no_grad;
  const auto gate = trace.gate.detach().to(torch::kCPU).contiguous();
  const auto rows = gate.reshape({-1, 3}).to(torch::kFloat64);
  GateUse use;
  use.layer = trace.layer;
  use.hash = nsa::hash_hex(bytes_of(gate));
  if (rows.size(0) == 0) {
    return use;
  }
  const auto mean = rows.mean(0);
  use.mean_cmp = mean[0].item<double>();
  use.mean_sel = mean[1].item<double>();
  use.mean_win = mean[2].item<double>();
  use.spread = (std::get<0>(rows.max(0)) - std::get<0>(rows.min(0))).max().item<double>();
  return use;
}

std::string hash_of_tensor(const torch::Tensor& tensor) {
  return nsa::hash_hex(bytes_of(tensor.detach().to(torch::kCPU).contiguous()));
}

bool is_nan_anywhere(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() &&
         tensor.detach().isnan().any().item<bool>();
}

std::vector<NamedTensor> tensors_of(const nsa::AttentionTrace& trace) {
  return {{"x", trace.x_BSE},
          {"q", trace.q_BHSD},
          {"k_raw", trace.k_raw_BGSD},
          {"v_raw", trace.v_raw_BGSD},
          {"k_sel", trace.k_sel_BGSD},
          {"v_sel", trace.v_sel_BGSD},
          {"k_win", trace.k_win_BGSD},
          {"v_win", trace.v_win_BGSD},
          {"k_cmp", trace.k_cmp_BGCD},
          {"v_cmp", trace.v_cmp_BGCD},
          {"p_grp", trace.p_grp_BGSN},
          {"blocks", trace.blocks_BGSn},
          {"o_cmp", trace.o_cmp_BHSD},
          {"o_sel", trace.o_sel_BHSD},
          {"o_win", trace.o_win_BHSD},
          {"gate", trace.gate},
          {"y", trace.y_BSE}};
}

}  // namespace

LayerRecorder::LayerRecorder(nsa::NsaLm& model,
                             const SeamWatch& watch,
                             Progress& progress,
                             bool keep_tensors)
    : model_(model), watch_(watch), progress_(progress), keep_tensors_(keep_tensors) {
  for (int layer = 0; layer < static_cast<int>(model_->config().n_layers); ++layer) {
    model_->attention(layer)->set_tap([this](const nsa::AttentionTrace& trace) { take(trace); });
  }
}

void LayerRecorder::begin(std::int64_t step, int of_rank) {
  step_ = step;
  of_rank_ = of_rank;
  layers_.clear();
  exposures_.clear();
  gates_.clear();
  decisions_.clear();
}

void LayerRecorder::take(const nsa::AttentionTrace& trace) {
  progress_.at_layer(trace.layer);
  if (paused_) {
    return;
  }
  if (nsa::is_recomputing()) {
    // What is computed again with another layer's weights is not that layer's.
    if (keep_tensors_ && nsa::recomputing_layer() == trace.layer) watch_gradients(trace);
    return;
  }
  exposures_.push_back(exposure_of(trace, model_->config()));
  exposures_.back().step = step_;
  gates_.push_back(gate_use_of(trace));
  gates_.back().step = step_;
  if (keeps_decisions_) {
    decisions_.push_back({step_,
                          trace.layer,
                          of_rank_,
                          hash_of_tensor(trace.p_grp_BGSN),
                          hash_of_tensor(chosen_by(trace))});
  }
  if (!keep_tensors_) {
    return;
  }
  Layer& layer = layers_[trace.layer];
  layer.trace = trace;
  layer.trace.blocks_BGSn = chosen_by(trace);
  watch_gradients(trace);
}

torch::Tensor LayerRecorder::chosen_by(const nsa::AttentionTrace& trace) const {
  // A whole sequence chosen token by token has no one choice.
  const auto chosen = watch_.blocks(trace.layer);
  const bool is_one = chosen.defined() && chosen.sizes() == trace.blocks_BGSn.sizes();
  return is_one ? chosen : trace.blocks_BGSn;
}

// Tensor hooks see the whole gradient of x and y; they return nothing and so change nothing. A layer that is computed again
// has its graph only then.
void LayerRecorder::watch_gradients(const nsa::AttentionTrace& trace) {
  Layer& layer = layers_[trace.layer];
  if (trace.x_BSE.requires_grad()) {
    trace.x_BSE.register_hook([&layer](const torch::Tensor& gradient) { layer.dx_BSE = gradient; });
  }
  if (trace.y_BSE.requires_grad()) {
    trace.y_BSE.register_hook([&layer](const torch::Tensor& gradient) { layer.dy_BSE = gradient; });
  }
}

void LayerRecorder::write(const ArtefactOut& out,
                          const std::map<std::string, torch::Tensor>& local,
                          const std::string& name) {
  for (auto& [index, layer] : layers_) {
    std::vector<NamedTensor> tensors = tensors_of(layer.trace);
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
    out.write({.step = step_, .of_rank = of_rank_, .name = name, .layer = index}, tensors);
  }
  layers_.clear();
}

void LayerRecorder::write_exposure(Channel& channel) const {
  for (const Exposure& exposure : exposures_) {
    channel.write(exposure);
  }
  for (const GateUse& use : gates_) {
    channel.write(use);
  }
  for (const BlockChoice& decision : decisions_) {
    channel.write(decision);
  }
}

bool LayerRecorder::has_nan() const {
  for (const auto& [index, layer] : layers_) {
    for (const NamedTensor& item : tensors_of(layer.trace)) {
      if (is_nan_anywhere(item.tensor)) {
        return true;
      }
    }
    if (is_nan_anywhere(layer.dx_BSE)) {
      return true;
    }
    for (const auto& parameter : model_->attention(index)->parameters()) {
      if (is_nan_anywhere(parameter.grad())) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace harness
