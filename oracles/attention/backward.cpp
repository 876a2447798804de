// The gradients of sum(y * dy), step by step backwards through forward.cpp.
#include <stdexcept>

#include "oracles/attention/activations.h"
#include "oracles/attention/compress.h"
#include "oracles/attention/gate.h"
#include "oracles/attention/rope.h"
#include "oracles/linear.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

// Rows of a group are dealt out to this many lanes, each with sums of its own that are added up in
// order: enough for the cores of a desk machine, few enough for memory, and the same on all.
constexpr std::int64_t kLanes = 8;

// Gradients of the keys and values of one group in one branch.
struct KeySums {
  std::vector<double> dk;
  std::vector<double> dv;
};

// Gradients of all keys that the branches attend to, and of the queries.
class AttendBackward {
 public:
  AttendBackward(const Layer& layer, const Activations& state, AttentionGradients& gradients)
      : layer_(layer), state_(state), gradients_(gradients) {
    for (const Branch branch : kBranches) {
      const BranchKeys& keys = state.projections.branches[index_of(branch)];
      banks_[index_of(branch)] = key_banks(keys);
      sums_[index_of(branch)] = {zeros(keys.k.shape), zeros(keys.v.shape)};
    }
  }

  // Afterwards gradients.q is complete but for the gate.
  std::array<BranchKeys, 3> run() {
    for (std::int64_t group = 0; group < state_.projections.sizes.batch_groups(); ++group) {
      std::vector<std::array<KeySums, 3>> lanes(kLanes);
      parallel_for(kLanes, 1, layer_.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t lane = begin; lane < end; ++lane) {
          run_lane(group, lane, lanes[lane]);
        }
      });
      for (const Branch branch : kBranches) {
        for (const std::array<KeySums, 3>& lane : lanes) {
          add_sums(branch, group, lane[index_of(branch)]);
        }
      }
    }
    return std::move(sums_);
  }

 private:
  // Rows lane, lane + kLanes, ...: early and late rows, which differ in work, in every lane.
  void run_lane(std::int64_t group, std::int64_t lane, std::array<KeySums, 3>& sums) {
    for (const Branch branch : kBranches) {
      const KeyBank& bank = banks_[index_of(branch)][group];
      sums[index_of(branch)].dk.assign(static_cast<std::size_t>(bank.count() * bank.d_k()), 0.0);
      sums[index_of(branch)].dv.assign(static_cast<std::size_t>(bank.count() * bank.d_v()), 0.0);
    }
    AttendWork work;
    for (std::int64_t row = lane; row < state_.projections.sizes.rows; row += kLanes) {
      for (const Branch branch : kBranches) {
        run_row(branch, group, row, sums[index_of(branch)], work);
      }
    }
  }

  void run_row(
      Branch branch, std::int64_t group, std::int64_t row, KeySums& sums, AttendWork& work) {
    const KeyBank& bank = banks_[index_of(branch)][group];
    const Tensor& d_o = branch == Branch::cmp   ? gradients_.o_cmp
                        : branch == Branch::sel ? gradients_.o_sel
                                                : gradients_.o_win;
    add_attend_gradients(bank,
                         keys_of(branch, group, row),
                         head_rows(state_.projections.q_BGhRD, group, row),
                         head_rows(d_o, group, row),
                         {head_rows(gradients_.q, group, row), sums.dk.data(), sums.dv.data()},
                         work);
  }

  [[nodiscard]] KeyList keys_of(Branch branch, std::int64_t group, std::int64_t row) const {
    const AttentionConfig& config = layer_.config;
    const std::int64_t t = state_.projections.rows[row];
    if (branch == Branch::cmp) {
      return visible_compressed(config, t, banks_[index_of(branch)][group].count());
    }
    if (branch == Branch::win) {
      return window_tokens(config, t);
    }
    const std::int64_t place = group * state_.projections.sizes.rows + row;
    return selected_tokens(config,
                           t,
                           {state_.attended.data.data() + place * config.n_sel,
                            static_cast<std::size_t>(config.n_sel)});
  }

  void add_sums(Branch branch, std::int64_t group, const KeySums& lane) {
    BranchKeys& sums = sums_[index_of(branch)];
    double* const dk = sums.k.data.data() + group * static_cast<std::int64_t>(lane.dk.size());
    double* const dv = sums.v.data.data() + group * static_cast<std::int64_t>(lane.dv.size());
    for (std::size_t i = 0; i < lane.dk.size(); ++i) {
      dk[i] += lane.dk[i];
    }
    for (std::size_t i = 0; i < lane.dv.size(); ++i) {
      dv[i] += lane.dv[i];
    }
  }

  const Layer& layer_;
  const Activations& state_;
  AttentionGradients& gradients_;
  std::array<std::vector<KeyBank>, 3> banks_;
  std::array<BranchKeys, 3> sums_;
};

// y = out.weight o with o = sum over the branches of gate * o_branch: from dy to the gradients of
// out.weight, of the branch outputs (gate * do) and of the gate (do . o_branch, summed over the
// heads that share it).
void output_gradients(const Layer& layer,
                      const Activations& state,
                      const Tensor& dy,
                      AttentionGradients& gradients) {
  const Sizes& n = state.projections.sizes;
  const std::int64_t width = layer.config.d_v;
  gradients.weights["out.weight"] = weight_gradient(dy, state.mixed_BRHV, layer.threads);
  Tensor merged = zeros(state.mixed_BRHV.shape);
  add_input_gradient(dy, layer.weight("out.weight"), merged, layer.threads);
  const Tensor d_o = split_heads(merged, layer.config.n_heads);
  const AttentionResult& result = state.result;
  const std::array<const Tensor*, 3> outputs{&result.o_cmp, &result.o_sel, &result.o_win};
  const std::array<Tensor*, 3> d_outputs{&gradients.o_cmp, &gradients.o_sel, &gradients.o_win};
  const GateIndex index(layer.config, n.rows);
  gradients.gate = zeros(result.gate.shape);
  for (std::size_t k = 0; k < 3; ++k) {
    *d_outputs[k] = zeros(result.o_cmp.shape);
    for (std::int64_t place = 0; place < n.batch_groups() * n.heads * n.rows; ++place) {
      const std::int64_t head = place / n.rows;
      const std::int64_t g = index.at(head / n.heads, head % n.heads, place % n.rows) + k;
      for (std::int64_t c = place * width; c < (place + 1) * width; ++c) {
        d_outputs[k]->data[c] = result.gate.data[g] * d_o.data[c];
        gradients.gate.data[g] += d_o.data[c] * outputs[k]->data[c];
      }
    }
  }
}

// Through the projection of one branch's keys or values, or of the queries: the weight's gradient,
// and what reaches x.
void projection_gradients(const Layer& layer,
                          const std::string& name,
                          const Tensor& dheads_BHSW,
                          const Tensor& x,
                          Tensor& dx,
                          Weights& gradients) {
  const Tensor merged = merge_heads(dheads_BHSW);
  add_input_gradient(merged, layer.weight(name), dx, layer.threads);
  gradients[name] = weight_gradient(merged, x, layer.threads);
}

Tensor unrotated(Tensor dz, const AttentionConfig& config, const std::vector<std::int64_t>& rows) {
  rotate(dz, config, rows, Turn::backward);
  return dz;
}

void key_gradients(const Layer& layer,
                   const Tensor& x,
                   std::array<BranchKeys, 3> d_keys,
                   const BranchKeys& raw_cmp,
                   AttentionGradients& gradients) {
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < x.shape[1]; ++t) {
    positions.push_back(t);
  }
  BranchKeys& d_cmp = d_keys[index_of(Branch::cmp)];
  gradients.k_cmp = d_cmp.k;
  gradients.v_cmp = d_cmp.v;
  d_cmp = {compress_gradients(layer, PhiOf::keys, raw_cmp.k, d_cmp.k, gradients.weights),
           compress_gradients(layer, PhiOf::values, raw_cmp.v, d_cmp.v, gradients.weights)};
  for (const Branch branch : kBranches) {
    BranchKeys& d = d_keys[index_of(branch)];
    const std::string name = branch_name(branch);
    projection_gradients(layer,
                         "W_K_" + name + ".weight",
                         unrotated(std::move(d.k), layer.config, positions),
                         x,
                         gradients.x,
                         gradients.weights);
    projection_gradients(layer, "W_V_" + name + ".weight", d.v, x, gradients.x, gradients.weights);
  }
}

void zero_gate_weights(const Layer& layer, Weights& gradients) {
  for (const auto& [name, weight] : layer.weights) {
    if (name.rfind("gate.", 0) == 0) {
      gradients[name] = zeros(weight.shape);
    }
  }
}

// Adds rows of [B,R,E] to their places in [B,S,E].
void scatter_rows(const Tensor& from, const std::vector<std::int64_t>& rows, Tensor& to) {
  const std::int64_t width = to.shape[2];
  const double* value = from.data.data();
  for (std::int64_t b = 0; b < to.shape[0]; ++b) {
    for (const std::int64_t row : rows) {
      double* const place = to.data.data() + (b * to.shape[1] + row) * width;
      for (std::int64_t c = 0; c < width; ++c) {
        place[c] += *value++;
      }
    }
  }
}

}  // namespace

AttentionGradients run_backward(const Layer& layer,
                                const Activations& state,
                                const Tensor& x,
                                const Tensor& dy,
                                bool gate_is_constant) {
  const Projections& in = state.projections;
  require_shape(dy, in.x_BRE.shape, "dy");
  require_finite(dy, "dy");
  AttentionGradients gradients;
  gradients.x = zeros(x.shape);
  gradients.q = zeros(in.q_BGhRD.shape);
  output_gradients(layer, state, dy, gradients);
  Tensor dx_rows = zeros(in.x_BRE.shape);
  if (gate_is_constant) {
    zero_gate_weights(layer, gradients.weights);
  } else {
    add_gate_gradients(layer,
                       {in.q_BGhRD, in.x_BRE},
                       state.result.gate,
                       gradients.gate,
                       gradients.q,
                       dx_rows,
                       gradients.weights);
  }
  std::array<BranchKeys, 3> d_keys = AttendBackward(layer, state, gradients).run();
  const Tensor dq = reshaped(
      gradients.q, {in.sizes.batch, layer.config.n_heads, in.sizes.rows, layer.config.d_k});
  projection_gradients(layer,
                       "W_Q.weight",
                       unrotated(dq, layer.config, in.rows),
                       in.x_BRE,
                       dx_rows,
                       gradients.weights);
  scatter_rows(dx_rows, in.rows, gradients.x);
  key_gradients(layer, x, std::move(d_keys), in.raw_cmp, gradients);
  return gradients;
}

}  // namespace oracles
