#include "oracles/attention/attention.h"

#include "oracles/attention/backward.h"
#include "oracles/attention/layer.h"
#include "oracles/attention/stages.h"

namespace oracles {
namespace {

AttentionResult result_of(const Stages& stages) {
  AttentionResult result;
  result.rows = stages.rows();
  result.q = stages.input(Stage::q);
  result.k_cmp = stages.input(Stage::k_cmp);
  result.v_cmp = stages.input(Stage::v_cmp);
  result.p_grp = stages.input(Stage::p_grp);
  result.margin = stages.margins();
  const Tensor& blocks = stages.input(Stage::blocks);
  result.blocks = {blocks.shape, {blocks.data.begin(), blocks.data.end()}};
  result.o_cmp = stages.input(Stage::o_cmp);
  result.o_sel = stages.input(Stage::o_sel);
  result.o_win = stages.input(Stage::o_win);
  result.gate = stages.input(Stage::gate);
  result.y = stages.input(Stage::y);
  return result;
}

}  // namespace

const Tensor* stage_in(const AttentionResult& result, Stage stage) {
  switch (stage) {
    case Stage::q: return &result.q;
    case Stage::k_cmp: return &result.k_cmp;
    case Stage::v_cmp: return &result.v_cmp;
    case Stage::p_grp: return &result.p_grp;
    case Stage::o_cmp: return &result.o_cmp;
    case Stage::o_sel: return &result.o_sel;
    case Stage::o_win: return &result.o_win;
    case Stage::gate: return &result.gate;
    case Stage::y: return &result.y;
    default: return nullptr;
  }
}

AttentionResult attention(const AttentionConfig& config,
                          const Weights& weights,
                          const Tensor& x,
                          const AttentionOptions& options) {
  require_finite_layer({config, weights, options.threads}, x);
  return result_of(Stages(config, weights, x, options));
}

AttentionPass attention_with_gradients(const AttentionConfig& config,
                                       const Weights& weights,
                                       const Tensor& x,
                                       const Tensor& dy,
                                       const AttentionOptions& options) {
  require_finite_layer({config, weights, options.threads}, x);
  const Stages stages(config, weights, x, options);
  return {result_of(stages), Backward(stages, dy).gradients()};
}

}  // namespace oracles
