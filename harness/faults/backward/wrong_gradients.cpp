// Backwards that are wrong where the forward is right: a factor for one head's share of dV, the last block's dK left out, a
// key gradient of zeros; and a workspace that the next layer writes into before the backward has read it.
#include <memory>

#include "harness/faults/attention/attend_seam.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using nsa::SeamContext;
using torch::Tensor;

constexpr double kFactor = 1.25;

// The same values; `change` sees the gradient on its way back.
template <typename Change>
Tensor with_gradient(const Tensor& tensor, Change change) {
  const Tensor alias = tensor.view_as(tensor);
  if (alias.requires_grad()) alias.register_hook(std::move(change));
  return alias;
}

// Puts change(context, q, k, v, attend) around the branch that the form names, in the fault's layers.
template <typename Around>
void around_branch(FaultContext& context, Around around) {
  const std::string branch = fault_form(context.request, {"cmp", "sel", "win"});
  const int n_layers = static_cast<int>(context.model->config().n_layers);
  for (const int layer : fault_layers(context.request, n_layers)) {
    nsa::AttentionSeams& seams = context.model->attention(layer)->seams();
    const auto wrapped = [&context, around](const auto& inner) {
      return [inner, &context, around](const SeamContext& seam,
                                       const Tensor& q_BHSD,
                                       const Tensor& k_BGSD,
                                       const Tensor& v_BGSD,
                                       const auto&... blocks) {
        const auto attend = [&](const Tensor& k, const Tensor& v) {
          return inner(seam, q_BHSD, k, v, blocks...);
        };
        if (!context.holds_now()) return attend(k_BGSD, v_BGSD);
        context.fired();
        return around(seam, k_BGSD, v_BGSD, attend);
      };
    };
    wrap_attend(seams, "attend_" + branch, wrapped);
  }
}

void wrong_scale(FaultContext& context) {
  around_branch(
      context,
      [&context](
          const SeamContext& seam, const Tensor& k_BGSD, const Tensor& v_BGSD, const auto& attend) {
        const int heads = static_cast<int>(seam.config.n_heads);
        const int head = draw_index(context.request.seed, "head", heads);
        const Tensor scaled_BGSD =
            with_gradient(v_BGSD, [](const Tensor& dv) { return dv * kFactor; });
        const Tensor right_BHSD = attend(k_BGSD, v_BGSD);
        const Tensor wrong_BHSD = attend(k_BGSD, scaled_BGSD);
        const Tensor is_head_H =
            torch::arange(heads, torch::TensorOptions(v_BGSD.device())).eq(head);
        return torch::where(is_head_H.view({1, -1, 1, 1}), wrong_BHSD, right_BHSD);
      });
}

void missing_tail(FaultContext& context) {
  around_branch(
      context,
      [](const SeamContext& seam, const Tensor& k_BGSD, const Tensor& v_BGSD, const auto& attend) {
        const std::int64_t block = seam.config.l_sel;
        const std::int64_t first = (k_BGSD.size(2) - 1) / block * block;
        return attend(with_gradient(k_BGSD,
                                    [first](const Tensor& dk) {
                                      Tensor cut = dk.clone();
                                      cut.slice(2, first).zero_();
                                      return cut;
                                    }),
                      v_BGSD);
      });
}

void zero_keys(FaultContext& context) {
  around_branch(
      context,
      [](const SeamContext&, const Tensor& k_BGSD, const Tensor& v_BGSD, const auto& attend) {
        return attend(with_gradient(k_BGSD, [](const Tensor& dk) { return torch::zeros_like(dk); }),
                      v_BGSD);
      });
}

// Every layer packs its compressed keys into the same memory.
void shared_workspace(FaultContext& context) {
  const auto workspace = std::make_shared<Tensor>();
  const int n_layers = static_cast<int>(context.model->config().n_layers);
  const std::vector<int> lower =
      n_layers < 2 ? std::vector<int>() : fault_layers(context.request, n_layers - 1);
  if (lower.empty()) {
    context.lacks("found no layer above another, wanted two that share a workspace");
    return;
  }
  const int first = lower.front();
  for (const int layer : {first, first + 1}) {
    auto& seams = context.model->attention(layer)->seams();
    seams.compress = [inner = seams.compress, workspace, layer, first, &context](
                         const SeamContext& seam,
                         const Tensor& raw_BGSD,
                         nsa::Pooled what,
                         const nsa::PhiWeights& weights) {
      const Tensor pooled_BGCD = inner(seam, raw_BGSD, what, weights);
      if (what != nsa::Pooled::key || !context.holds_now()) return pooled_BGCD;
      context.fired();
      if (layer == first) {
        *workspace = pooled_BGCD.clone();
        return *workspace;
      }
      const torch::NoGradGuard no_graph;  // the packing kernel knows nothing of autograd
      if (workspace->sizes() == pooled_BGCD.sizes()) workspace->copy_(pooled_BGCD);
      return pooled_BGCD;
    };
  }
}

}  // namespace

Faults faults_of_wrong_gradients() {
  return {{"wrong_dv_scale",
           "one head's share of the gradient of the values is off by a factor",
           {"layers", "step", "form"},
           wrong_scale,
           {"sel", "win", "cmp"}},
          {"missing_dk_tail",
           "the gradient of the keys of the last block is left out",
           {"layers", "step", "form"},
           missing_tail,
           {"sel", "win"}},
          {"zero_grad_keys",
           "the gradient of a branch's keys is exactly zero",
           {"layers", "step", "form"},
           zero_keys,
           {"cmp", "sel", "win"}},
          {"inplace_pack",
           "a layer writes into the workspace that the layer before it still needs",
           {"layers", "step"},
           shared_workspace,
           {},
           true}};
}

}  // namespace harness
