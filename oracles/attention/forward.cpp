#include <algorithm>
#include <stdexcept>

#include "oracles/attention/activations.h"
#include "oracles/attention/block_scores.h"
#include "oracles/attention/gate.h"
#include "oracles/attention/selection.h"
#include "oracles/linear.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

// Rows that a thread takes at a time: enough to forget the cost of taking them.
constexpr std::int64_t kGrainRows = 16;

void validate_replay(const IntTensor& replay, const AttentionConfig& config, const Sizes& n) {
  require_shape(replay, {n.batch, n.groups, n.rows, config.n_sel}, "replay");
  const std::int64_t blocks = config.block_count(n.length);
  for (auto row = replay.data.begin(); row != replay.data.end(); row += config.n_sel) {
    std::int64_t previous = -1;
    bool ended = false;
    for (auto block = row; block != row + config.n_sel; ++block) {
      const bool ends = *block == -1;
      if (!ends && (ended || *block <= previous || *block >= blocks)) {
        throw std::invalid_argument("replay: found block " + std::to_string(*block) + " after " +
                                    (ended ? "-1" : std::to_string(previous)) +
                                    ", wanted blocks below " + std::to_string(blocks) +
                                    ", strictly ascending, then -1");
      }
      ended = ends;
      previous = *block;
    }
  }
}

AttentionResult empty_result(const AttentionConfig& config, const Sizes& n) {
  const Shape heads{n.batch, n.groups, n.heads, n.rows, config.d_v};
  AttentionResult result;
  result.p_grp = zeros({n.batch, n.groups, n.rows, config.block_count(n.length)});
  result.blocks = filled<std::int64_t>({n.batch, n.groups, n.rows, config.n_sel}, -1);
  result.margin = zeros({n.batch, n.groups, n.rows});
  result.o_cmp = zeros(heads);
  result.o_sel = zeros(heads);
  result.o_win = zeros(heads);
  return result;
}

// The three branches of all rows of one group.
class GroupForward {
 public:
  GroupForward(const AttentionConfig& config, Activations& state)
      : config_(config),
        state_(state),
        map_(config, state.projections.sizes.length),
        banks_{key_banks(state.projections.branches[0]),
               key_banks(state.projections.branches[1]),
               key_banks(state.projections.branches[2])} {}

  void run(std::int64_t group, std::int64_t row, std::vector<double>& work) {
    const Projections& in = state_.projections;
    AttentionResult& out = state_.result;
    const std::int64_t t = in.rows[row];
    const View q = head_rows(in.q_BGhRD, group, row);
    const KeyBank& compressed = bank(Branch::cmp, group);
    attend(compressed,
           visible_compressed(config_, t, compressed.count()),
           q,
           work,
           head_rows(out.o_cmp, group, row));
    select(group, row, work);
    attend(bank(Branch::sel, group),
           selected_tokens(config_, t, attended(group, row)),
           q,
           work,
           head_rows(out.o_sel, group, row));
    attend(bank(Branch::win, group),
           window_tokens(config_, t),
           q,
           work,
           head_rows(out.o_win, group, row));
  }

 private:
  [[nodiscard]] const KeyBank& bank(Branch branch, std::int64_t group) const {
    return banks_[index_of(branch)][group];
  }

  // Scores, choice and margin, from the probabilities of the compressed tokens.
  void select(std::int64_t group, std::int64_t row, const std::vector<double>& p_hC) {
    AttentionResult& out = state_.result;
    const Sizes& n = state_.projections.sizes;
    const std::int64_t place = group * n.rows + row;
    const std::int64_t blocks = out.p_grp.shape[3];
    const std::span<double> scores(out.p_grp.data.data() + place * blocks,
                                   static_cast<std::size_t>(blocks));
    add_block_scores(map_, p_hC, n.heads, scores);
    const Selection choice = select_blocks(config_, state_.projections.rows[row], scores);
    std::copy(choice.blocks.begin(),
              choice.blocks.end(),
              out.blocks.data.begin() + place * config_.n_sel);
    out.margin.data[place] = choice.margin;
  }

  [[nodiscard]] std::span<const std::int64_t> attended(std::int64_t group, std::int64_t row) const {
    const IntTensor& blocks = state_.attended.data.empty() ? state_.result.blocks : state_.attended;
    const std::int64_t place = group * state_.projections.sizes.rows + row;
    return {blocks.data.data() + place * config_.n_sel, static_cast<std::size_t>(config_.n_sel)};
  }

  const AttentionConfig& config_;
  Activations& state_;
  OverlapMap map_;
  std::array<std::vector<KeyBank>, 3> banks_;
};

// o[b,t,hq] = gate_cmp o_cmp + gate_sel o_sel + gate_win o_win, heads concatenated: [B,R,H*V].
Tensor mixed_branches(const AttentionConfig& config,
                      const AttentionResult& result,
                      const Sizes& n) {
  const GateIndex index(config, n.rows);
  const std::int64_t width = config.d_v;
  Tensor mixed = zeros({n.batch, config.n_heads, n.rows, width});
  for (std::int64_t place = 0; place < n.batch_groups() * n.heads * n.rows; ++place) {
    const std::int64_t head = place / n.rows;
    const double* const g =
        result.gate.data.data() + index.at(head / n.heads, head % n.heads, place % n.rows);
    for (std::int64_t c = place * width; c < (place + 1) * width; ++c) {
      mixed.data[c] =
          g[0] * result.o_cmp.data[c] + g[1] * result.o_sel.data[c] + g[2] * result.o_win.data[c];
    }
  }
  return merge_heads(mixed);
}

}  // namespace

Activations run_forward(const Layer& layer, const Tensor& x, const AttentionOptions& options) {
  Activations state;
  state.projections = project(layer, x, options);
  const Projections& in = state.projections;
  AttentionResult& out = state.result = empty_result(layer.config, in.sizes);
  if (options.replay) {
    validate_replay(*options.replay, layer.config, in.sizes);
    state.attended = *options.replay;
  }
  GroupForward forward(layer.config, state);
  parallel_for(in.sizes.batch_groups() * in.sizes.rows,
               kGrainRows,
               layer.threads,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<double> work;
                 for (std::int64_t place = begin; place < end; ++place) {
                   forward.run(place / in.sizes.rows, place % in.sizes.rows, work);
                 }
               });
  if (!options.replay) {
    state.attended = out.blocks;
  }
  const GateInputs gate_inputs{in.q_BGhRD, in.x_BRE};
  out.gate = options.gate_override
                 ? constant_gate(layer.config, gate_inputs, *options.gate_override)
                 : gate(layer, gate_inputs);
  state.mixed_BRHV = mixed_branches(layer.config, out, in.sizes);
  out.y = linear(state.mixed_BRHV, layer.weight("out.weight"), layer.threads);
  return state;
}

}  // namespace oracles
