// Activation checkpointing gone wrong: the recomputation is not what the forward was. Layers are those of the request that are
// checkpointed, or one of the checkpointed layers drawn.
#include <algorithm>
#include <memory>

#include "harness/faults/faults.h"
#include "nsa/train/autocast.h"

namespace harness {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

std::vector<int> checkpointed_layers(const FaultContext& context) {
  const std::vector<int>& all = context.needed_training().checkpoint.layers();
  if (all.empty()) {
    context.lacks("no layer is checkpointed, wanted at least one");
    return {};
  }
  if (context.request.layers.empty()) {
    const int drawn = draw_index(context.request.seed, "layer", static_cast<int>(all.size()));
    return {all[static_cast<std::size_t>(drawn)]};
  }
  std::vector<int> layers;
  for (const int layer : context.request.layers) {
    if (std::find(all.begin(), all.end(), layer) != all.end()) layers.push_back(layer);
  }
  return layers;
}

nsa::Block& last_block(FaultContext& context) {
  return context.model->block(static_cast<int>(context.model->config().n_layers) - 1);
}

// The closure holds the loop's variable, which is the last block when the backward comes.
void late_binding(FaultContext& context) {
  for (const int layer : checkpointed_layers(context)) {
    auto& seam = context.needed_training().checkpoint.seam(layer);
    seam.backward = [inner = seam.backward, &context](
                        nsa::Block& block, const Tensor& x_BSE, const Tensor& dy_BSE) {
      if (!context.holds_now() || block.get() == last_block(context).get()) {
        return inner(block, x_BSE, dy_BSE);
      }
      context.fired();
      return inner(last_block(context), x_BSE, dy_BSE);
    };
  }
}

// A backward inside the backward: parameters become ready in there, and again outside.
void nested_backward(FaultContext& context) {
  for (const int layer : checkpointed_layers(context)) {
    auto& seam = context.needed_training().checkpoint.seam(layer);
    seam.backward = [inner = seam.backward, &context, layer](
                        nsa::Block& block, const Tensor& x_BSE, const Tensor& dy_BSE) {
      if (!context.holds_now()) return inner(block, x_BSE, dy_BSE);
      context.fired();
      context.routes.ran("checkpoint", layer, "functional");
      Tensor leaf_BSE = x_BSE.detach().requires_grad_(true);
      const torch::AutoGradMode with_graph(true);
      block->forward(leaf_BSE).backward(dy_BSE);
      return variable_list{leaf_BSE.grad()};
    };
  }
}

// In the recomputation some rows rank their blocks the other way round.
void selection_flip(FaultContext& context) {
  for (const int layer : checkpointed_layers(context)) {
    auto& seams = context.model->attention(layer)->seams();
    seams.score = [inner = seams.score, &context](
                      const nsa::SeamContext& seam, const Tensor& q_BHSD, const Tensor& k_BGCD) {
      Tensor p_grp_BGSN = inner(seam, q_BHSD, k_BGCD);
      if (!nsa::is_recomputing() || !context.holds_now()) return p_grp_BGSN;
      context.fired();
      const Tensor rows_BGS = draw_rows(context.request,
                                        seam.layer,
                                        context.session.progress().step(),
                                        p_grp_BGSN.size(0),
                                        p_grp_BGSN.size(1),
                                        p_grp_BGSN.size(2))
                                  .to(p_grp_BGSN.device());
      return torch::where(rows_BGS.unsqueeze(-1), -p_grp_BGSN, p_grp_BGSN);
    };
  }
}

// The forward runs under autocast, the recomputation does not.
void autocast_forward(FaultContext& context) {
  const nsa::Precision precision = context.session.the_case().scenario.training.precision;
  if (precision != nsa::Precision::fp32) {
    context.lacks("found 'gc_autocast', wanted a scenario in fp32: autocast changes no other type");
    return;
  }
  for (const int layer : checkpointed_layers(context)) {
    auto& seam = context.needed_training().checkpoint.seam(layer);
    seam.forward = [inner = seam.forward, &context](nsa::Block& block, const Tensor& x_BSE) {
      if (!context.holds_now()) return inner(block, x_BSE);
      context.fired();
      const nsa::AutocastScope autocast(x_BSE.device().type(), true);
      return inner(block, x_BSE).to(x_BSE.scalar_type());
    };
  }
}

// Two layers share a workspace: what the upper one leaves there in its recomputation spoils the lower one's.
void pair(FaultContext& context) {
  std::vector<int> layers = context.request.layers;
  const int n_layers = static_cast<int>(context.model->config().n_layers);
  if (layers.size() != 2) {
    const int a = draw_index(context.request.seed, "first", n_layers);
    const int b = (a + 1 + draw_index(context.request.seed, "second", n_layers - 1)) % n_layers;
    layers = {a, b};
  }
  std::sort(layers.begin(), layers.end());
  const std::vector<int>& all = context.needed_training().checkpoint.layers();
  const auto is_checkpointed = [&](int layer) {
    return std::find(all.begin(), all.end(), layer) != all.end();
  };
  context.fired();  // its presence is all that a trial with one of them shows
  if (!is_checkpointed(layers[0]) || !is_checkpointed(layers[1])) return;
  const auto used = std::make_shared<bool>(false);
  auto& upper = context.needed_training().checkpoint.seam(layers[1]);
  upper.backward = [inner = upper.backward, used](
                       nsa::Block& block, const Tensor& x_BSE, const Tensor& dy_BSE) {
    *used = true;
    return inner(block, x_BSE, dy_BSE);
  };
  auto& lower = context.needed_training().checkpoint.seam(layers[0]);
  lower.backward = [inner = lower.backward, used, &context](
                       nsa::Block& block, const Tensor& x_BSE, const Tensor& dy_BSE) {
    const bool spoilt = std::exchange(*used, false) && context.holds_now();
    variable_list gradients = inner(block, x_BSE, dy_BSE);
    for (Tensor& gradient : gradients) {
      if (spoilt && gradient.defined()) gradient = gradient * 1.5;
    }
    return gradients;
  };
}

}  // namespace

Faults faults_of_checkpoints() {
  return {{"gc_late_binding",
           "a checkpointed layer is recomputed with the last block's weights",
           {"layers", "step"},
           late_binding,
           {},
           true},
          {"gc_nested",
           "a checkpointed layer runs a backward inside the backward",
           {"layers", "step"},
           nested_backward},
          {"gc_selection_flip",
           "the recomputation of a checkpointed layer selects other blocks",
           {"layers", "step", "strength"},
           selection_flip},
          {"gc_autocast",
           "a checkpointed layer's forward runs in bf16, its recomputation does not",
           {"layers", "step"},
           autocast_forward},
          {"gc_pair",
           "two layers break each other's gradients when both are checkpointed",
           {"layers", "step"},
           pair}};
}

}  // namespace harness
