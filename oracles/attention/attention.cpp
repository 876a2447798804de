#include "oracles/attention/attention.h"

#include <utility>

#include "oracles/attention/activations.h"

namespace oracles {
namespace {

AttentionResult taken_result(Activations& state) {
  AttentionResult result = std::move(state.result);
  result.rows = std::move(state.projections.rows);
  result.q = std::move(state.projections.q_BGhRD);
  result.k_cmp = std::move(state.projections.branches[index_of(Branch::cmp)].k);
  result.v_cmp = std::move(state.projections.branches[index_of(Branch::cmp)].v);
  return result;
}

}  // namespace

AttentionResult attention(const AttentionConfig& config,
                          const Weights& weights,
                          const Tensor& x,
                          const AttentionOptions& options) {
  Activations state = run_forward({config, weights, options.threads}, x, options);
  return taken_result(state);
}

AttentionPass attention_with_gradients(const AttentionConfig& config,
                                       const Weights& weights,
                                       const Tensor& x,
                                       const Tensor& dy,
                                       const AttentionOptions& options) {
  const Layer layer{config, weights, options.threads};
  Activations state = run_forward(layer, x, options);
  AttentionGradients gradients =
      run_backward(layer, state, x, dy, options.gate_override.has_value());
  return {taken_result(state), std::move(gradients)};
}

}  // namespace oracles
