// Gates that do nothing. Seen: a fused path that never read the override of the gates; gates that began at zero and had no
// gradient to leave it; gates that gave one branch everything and never came back.
#include <algorithm>

#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"
#include "nsa/base/error.h"

namespace harness {
namespace {

using torch::Tensor;

// ---- fused_gate_ignores_override -----------------------------------------------------------------

void install_ignored(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.gate = [inner = seams.gate, &context](const nsa::SeamContext& seam,
                                                const Tensor& x_BSE,
                                                const Tensor& q_BHSD,
                                                const nsa::GateWeights& weights) {
      const Tensor right = inner(seam, x_BSE, q_BHSD, weights);
      if (!seam.gate_override || !context.holds_now()) return right;
      nsa::SeamContext fused = unseen(seam);
      fused.gate_override.reset();
      const Tensor learned = inner(fused, x_BSE, q_BHSD, weights);
      const Tensor differs_BGS = differing_rows(learned, right, seam.config.n_kv_groups);
      return replaced(strike(context, seam, differs_BGS), learned, right);
    };
  });
}

// ---- weights of a gate ---------------------------------------------------------------------------

// Sets the gate's weights of the fault's layers, before anything ran.
void set_gates(FaultContext& context, const std::function<void(nsa::GateWeights)>& set) {
  if (context.model->config().gate != nsa::Gate::group_softmax) {
    context.lacks("'" + context.request.name + "' wants model.gate group_softmax");
    return;
  }
  const torch::NoGradGuard no_grad;
  const int n_layers = static_cast<int>(context.model->config().n_layers);
  for (const int layer : fault_layers(context.request, n_layers)) {
    set(context.model->attention(layer)->weights().gate);
    context.fired();
  }
}

// Zero weights under zero weights have no gradient: they stay zero by themselves. The last bias moves, alike for all rows.
void install_zero(FaultContext& context) {
  set_gates(context, [](const nsa::GateWeights& gate) {
    for (Tensor tensor : {gate.fc1_weight, gate.fc1_bias, gate.fc2_weight, gate.fc2_bias}) {
      tensor.zero_();
    }
  });
}

const std::vector<std::string> kGatedBranches = {"cmp", "sel", "win"};

void install_collapsed(FaultContext& context) {
  const std::string form = fault_form(context.request, kGatedBranches);
  const auto branch =
      std::find(kGatedBranches.begin(), kGatedBranches.end(), form) - kGatedBranches.begin();
  set_gates(context, [branch](nsa::GateWeights gate) {
    // The others get e^-8, and gradients that do not bring them back.
    constexpr double kMost = 8.0;
    gate.fc2_bias[branch] += kMost;
  });
}

}  // namespace

Faults faults_of_gates() {
  return {{"fused_gate_ignores_override",
           "the gates that were set are not used; the learned ones are",
           {"layers", "rank", "step", "strength"},
           install_ignored},
          {"gate_zero_init",
           "the gate's weights begin at zero, where they have no gradient",
           {"layers"},
           install_zero},
          {"gate_collapsed",
           "the gate gives all to one branch",
           {"layers", "form"},
           install_collapsed,
           kGatedBranches}};
}

}  // namespace harness
