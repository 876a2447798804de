// One rank leaves a branch of one layer out of its graph in one step: its parameters stay without a gradient there, its
// reduction is never finished, and the peers wait. The form is the branch.
#include "harness/faults/faults.h"

namespace harness {
namespace {

torch::Tensor nothing_like(const torch::Tensor& output_BHSD) {
  return torch::zeros_like(output_BHSD.detach());
}

// Calls `attend` for its numbers only and returns zeros in their place.
template <typename Attend>
void leave_out(Attend& attend, FaultContext& context) {
  attend = [inner = attend, &context](const auto&... arguments) {
    if (!context.is_step_now()) {
      return inner(arguments...);
    }
    context.fired();
    const torch::NoGradGuard no_grad;
    return nothing_like(inner(arguments...));
  };
}

void install_rank_graph(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) {
    return;
  }
  const std::string branch = fault_form(context.request, {"cmp", "sel", "win"});
  for (const int layer :
       fault_layers(context.request, static_cast<int>(context.model->config().n_layers))) {
    nsa::AttentionSeams& seams = context.model->attention(layer)->seams();
    if (branch == "cmp") {
      leave_out(seams.attend_cmp, context);
    } else if (branch == "sel") {
      leave_out(seams.attend_sel, context);
    } else {
      leave_out(seams.attend_win, context);
    }
  }
}

}  // namespace

Faults faults_of_rank_graph() {
  return {{"rank_graph",
           "one rank leaves a branch out of its graph at one step",
           {"layers", "rank", "step", "form"},
           install_rank_graph,
           {"cmp", "sel", "win"}}};
}

}  // namespace harness
