// The keys that enter the compression are cut out of the graph: W_K_cmp of that layer never gets a gradient.
#include "harness/faults/faults.h"

namespace harness {
namespace {

void install_detached(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) {
    return;
  }
  const auto layers =
      fault_layers(context.request, static_cast<int>(context.model->config().n_layers));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    // Strength is the share of the layers, the first always among them.
    if (i > 0 &&
        draw_unit(context.request.seed, "layer share", layers[i]) >= context.request.strength) {
      continue;
    }
    auto& compress = context.model->attention(layers[i])->seams().compress;
    compress = [inner = compress, &context](const nsa::SeamContext& seam,
                                            const torch::Tensor& raw_BGSD,
                                            nsa::Pooled what,
                                            const nsa::PhiWeights& weights) {
      if (what != nsa::Pooled::key || !context.holds_now()) {
        return inner(seam, raw_BGSD, what, weights);
      }
      context.fired();
      return inner(seam, raw_BGSD.detach(), what, weights);
    };
  }
}

}  // namespace

Faults faults_of_kcmp_detached() {
  return {{"kcmp_detached",
           "the compressed keys are cut out of the graph",
           {"layers", "rank", "step", "strength"},
           install_detached}};
}

}  // namespace harness
