// Parameters that somebody forgot: nobody gave them to the optimiser, or nobody wrote initial values into them. The form is the
// parameter, of each drawn layer.
#include <memory>

#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kForgotten = {"W_Q",
                                             "W_K_cmp",
                                             "W_V_cmp",
                                             "W_K_sel",
                                             "W_V_sel",
                                             "W_K_win",
                                             "W_V_win",
                                             "out",
                                             "mlp.fc1",
                                             "mlp.fc2"};

// Positions in the model's list of parameters.
std::vector<std::size_t> forgotten(const FaultContext& context) {
  const std::string tail = "." + fault_form(context.request, kForgotten) + ".weight";
  std::vector<std::size_t> positions;
  const auto named = context.model->named_parameters();
  const auto n_layers = static_cast<int>(context.model->config().n_layers);
  for (const int layer : fault_layers(context.request, n_layers)) {
    const std::string head = "blocks." + std::to_string(layer) + ".";
    for (std::size_t i = 0; i < named.size(); ++i) {
      const std::string& name = named[i].key();
      if (name.starts_with(head) && name.ends_with(tail)) positions.push_back(i);
    }
  }
  return positions;
}

// ---- param_not_in_optimizer ----------------------------------------------------------------------

// The norm is that of all gradients, as a training loop takes it; AdamW passes over what has none.
void leave_out(FaultContext& context) {
  nsa::Optimizer& optimizer = context.needed_training().optimizer;
  const auto positions = forgotten(context);
  const auto held = std::make_shared<std::vector<std::pair<Tensor, Tensor>>>();
  const double max_norm = context.session.the_case().scenario.training.optimizer.max_norm;
  optimizer.clip() = [&context, positions, held, max_norm](const std::vector<Tensor>& updated) {
    const double norm = nsa::clip_gradients(updated, max_norm);
    for (const std::size_t position : positions) {
      Tensor tensor = updated[position];
      if (!tensor.grad().defined()) continue;
      held->emplace_back(tensor, tensor.grad());
      tensor.mutable_grad().reset();
      context.fired();
    }
    return norm;
  };
  auto& seam = context.needed_training().seams.optimizer;
  seam = [inner = seam, held](std::int64_t step) {
    const double norm = inner(step);
    for (auto& [tensor, gradient] : *held) tensor.mutable_grad() = gradient;
    held->clear();
    return norm;
  };
}

// ---- param_init_skipped --------------------------------------------------------------------------

// Memory as a new process gets it: zeros.
void skip_init(FaultContext& context) {
  const torch::NoGradGuard no_graph;
  const auto parameters = context.model->parameters();
  for (const std::size_t position : forgotten(context)) {
    Tensor(parameters[position]).zero_();
    context.fired();
  }
}

}  // namespace

Faults faults_of_forgotten_parameters() {
  return {{"param_not_in_optimizer",
           "the optimiser was never given a parameter",
           {"layers", "form"},
           leave_out,
           kForgotten},
          {"param_init_skipped",
           "a parameter never gets initial values",
           {"layers", "form"},
           skip_init,
           kForgotten}};
}

}  // namespace harness
