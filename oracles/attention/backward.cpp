#include "oracles/attention/backward.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "oracles/attention/compress.h"
#include "oracles/attention/float_sums.h"
#include "oracles/attention/gate.h"
#include "oracles/attention/rope.h"

namespace oracles {
namespace {

// Rows of a group are dealt out to this many lanes, each with sums of its own that are added up in
// order: enough for the cores of a desk machine, few enough for memory, and the same on all.
constexpr std::int64_t kRowLanes = 8;

// Gradients of the keys and values of one group.
struct KeySums {
  std::vector<double> dk;
  std::vector<double> dv;
};

void add(const std::vector<double>& from, double* to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] += from[i];
  }
}

void add(const Tensor& from, Tensor& to) {
  add(from.data, to.data.data());
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
  add_kept_input_gradient(layer, merged, layer.weight(name), dx);
  gradients[name] = kept_weight_gradient(layer, merged, x);
}

Tensor unrotated(Tensor dz, const Layer& layer, const std::vector<std::int64_t>& rows) {
  rotate(dz, layer.config, rows, Turn::backward);
  return layer.kept.of(std::move(dz));
}

BranchGradients no_gradients(const Stages& forward, Branch branch) {
  return {zeros(forward.shape_of(Stage::q)),
          zeros(forward.shape_of(key_stage(branch))),
          zeros(forward.shape_of(value_stage(branch)))};
}

// One query of one head.
struct HeadPlace {
  std::int64_t group;
  std::int64_t head;
  std::int64_t row;

  // Its own row of what head_rows() gives.
  [[nodiscard]] MutableView of(const MutableView& heads) const {
    return {heads.data + head * heads.row_step, 1, heads.columns, heads.row_step};
  }
  [[nodiscard]] View of(const View& heads) const {
    return {heads.data + head * heads.row_step, 1, heads.columns, heads.row_step, 1};
  }
};

// The backward of one branch's attention where products take narrow numbers: the probabilities and
// their gradients are rounded before they are multiplied, and sum p dp is taken as do . o, of the
// output as it was stored.
class NarrowRule {
 public:
  NarrowRule(const Stages& forward, Branch branch, const Tensor& d_o, Backward::Mean mean)
      : forward_(forward),
        branch_(branch),
        of_rounded_(mean == Backward::Mean::of_rounded),
        rounds_products_(of_rounded_ || mean == Backward::Mean::of_output_beside_rounded),
        scaled_last_(mean == Backward::Mean::of_output_scaled_last),
        d_o_(d_o),
        q_(forward.input(Stage::q)),
        o_(forward.input(output_stage(branch))),
        banks_(forward.banks(branch)) {
    if (branch == Branch::sel) {
      (void)forward.attended();  // computed before threads ask for it
    }
  }

  void add(const HeadPlace& at, const AttendGradients& gradients, AttendWork& work) const {
    const Kept& kept = forward_.layer().kept;
    const KeyBank& bank = banks_[at.group];
    const KeyList keys = visible_keys(forward_.query(branch_, at.group, at.row));
    const View q = at.of(head_rows(q_, at.group, at.row));
    const View d_o = at.of(head_rows(d_o_, at.group, at.row));
    const View o = at.of(head_rows(o_, at.group, at.row));
    scaled_logits(bank, keys, q, work.p_hK);
    softmax_rows(work.p_hK, 1);
    value_products(bank, keys, d_o, work.ds_hK);
    if (kept.draw != 0) {
      draw_value_products(bank, keys, d_o, kept.draw, work.ds_hK);
    }
    if (rounds_products_) {
      kept.round(work.ds_hK);
    }
    double mean = 0;
    for (std::int64_t c = 0; c < o.columns && !of_rounded_; ++c) {
      mean += d_o.data[c] * o.data[c];
    }
    for (std::size_t k = 0; k < work.p_hK.size() && of_rounded_; ++k) {
      mean += work.p_hK[k] * work.ds_hK[k];
    }
    if (kept.draw != 0 && !of_rounded_) {
      mean = sum_in_float32(
          mean, magnitudes_of_products(d_o.data, o.data, o.columns), mean_draw(kept.draw));
    }
    const double root = std::sqrt(static_cast<double>(bank.d_k()));
    for (std::size_t k = 0; k < work.p_hK.size(); ++k) {
      const double of_logit = work.p_hK[k] * (work.ds_hK[k] - mean);
      work.ds_hK[k] = scaled_last_ ? kept.of(of_logit, kept.results) / root : of_logit / root;
    }
    kept.round(work.p_hK);
    if (!rounds_products_ && !scaled_last_) {
      kept.round(work.ds_hK);
    }
    add_value_gradients(bank, keys, work.p_hK, d_o, gradients.dv_NV);
    add_query_gradients(bank, keys, work.ds_hK, gradients.dq_hD);
    add_key_gradients(bank, keys, work.ds_hK, q, gradients.dk_ND);
  }

 private:
  const Stages& forward_;
  Branch branch_;
  bool of_rounded_;
  bool rounds_products_;  // of the values and the gradient that comes in
  bool scaled_last_;
  const Tensor& d_o_;
  const Tensor& q_;
  const Tensor& o_;
  const std::vector<KeyBank>& banks_;
};

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

// y = out.weight o with o = sum over the branches of gate * o_branch: from dy to the gradients of
// out.weight, of the branch outputs (gate * do) and of the gate (do . o_branch, summed over the
// heads that share it).
Backward::Backward(const Stages& forward, const Tensor& dy) : forward_(forward) {
  require_shape(dy, forward.shape_of(Stage::y), "dy");
  require_finite(dy, "dy");
  const Layer& layer = forward.layer();
  const Sizes& n = forward.sizes();
  const std::int64_t width = layer.config.d_v;
  const Tensor& gate = forward.input(Stage::gate);
  dout_weight_ = kept_weight_gradient(layer, dy, merge_heads(forward.mixed(gate)));
  Tensor merged = zeros({n.batch, n.rows, layer.config.n_heads * width});
  add_kept_input_gradient(layer, dy, layer.weight("out.weight"), merged);
  const Tensor d_o = split_heads(merged, layer.config.n_heads);
  const GateIndex index(layer.config, n.rows);
  dgate_ = zeros(gate.shape);
  for (std::size_t k = 0; k < 3; ++k) {
    const Tensor& output = forward.input(output_stage(kBranches[k]));
    d_o_[k] = zeros(output.shape);
    for (std::int64_t place = 0; place < n.batch_groups() * n.heads * n.rows; ++place) {
      const std::int64_t head = place / n.rows;
      const std::int64_t g = index.at(head / n.heads, head % n.heads, place % n.rows) + k;
      for (std::int64_t c = place * width; c < (place + 1) * width; ++c) {
        d_o_[k].data[c] = gate.data[g] * d_o.data[c];
        dgate_.data[g] += d_o.data[c] * output.data[c];
      }
    }
    layer.kept.round(d_o_[k].data);
  }
  layer.kept.round(dgate_.data);
}

Backward::Backward(const Stages& forward, Branch branch, Tensor d_o, Mean mean)
    : forward_(forward), mean_(mean) {
  require_shape(d_o, forward.shape_of(output_stage(branch)), "d_o");
  require_finite(d_o, "d_o");
  d_o_[index_of(branch)] = std::move(d_o);
}

RowRule Backward::right_rule(Branch branch) const {
  const std::vector<KeyBank>& banks = forward_.banks(branch);
  const Tensor& q = forward_.input(Stage::q);
  if (branch == Branch::sel) {
    (void)forward_.attended();  // computed before threads ask for it
  }
  return [this, branch, &banks, &q](std::int64_t group,
                                    std::int64_t row,
                                    const View& do_hV,
                                    const AttendGradients& gradients,
                                    AttendWork& work) {
    add_attend_gradients(banks[group],
                         visible_keys(forward_.query(branch, group, row)),
                         head_rows(q, group, row),
                         do_hV,
                         gradients,
                         work,
                         forward_.layer().kept.draw);
  };
}

const BranchGradients& Backward::through(Branch branch) const {
  std::optional<BranchGradients>& known = through_[index_of(branch)];
  if (!known) {
    const Kept& kept = forward_.layer().kept;
    known = kept.narrow(branch) ? through_narrow(branch)
                                : through(branch, of_output(branch), right_rule(branch));
    kept.round(known->q.data);
    kept.round(known->k.data);
    kept.round(known->v.data);
  }
  return *known;
}

// The gradients of one head's keys and values are kept, and so rounded, before they are added up.
BranchGradients Backward::through_narrow(Branch branch) const {
  const Sizes& n = forward_.sizes();
  BranchGradients sums = no_gradients(forward_, branch);
  const auto k_size = static_cast<std::int64_t>(sums.k.data.size()) / n.batch_groups();
  const auto v_size = static_cast<std::int64_t>(sums.v.data.size()) / n.batch_groups();
  const Kept& kept = forward_.layer().kept;
  const NarrowRule rule(forward_, branch, of_output(branch), mean_);
  std::vector<KeySums> heads(n.batch_groups() * n.heads);
  const auto size = static_cast<std::int64_t>(heads.size());
  parallel_for(size, 1, forward_.layer().threads, [&](std::int64_t begin, std::int64_t end) {
    AttendWork work;
    for (std::int64_t head = begin; head < end; ++head) {
      KeySums& own = heads[head];
      own.dk.assign(static_cast<std::size_t>(k_size), 0.0);
      own.dv.assign(static_cast<std::size_t>(v_size), 0.0);
      for (std::int64_t row = 0; row < n.rows; ++row) {
        const HeadPlace at{head / n.heads, head % n.heads, row};
        rule.add(at, {at.of(head_rows(sums.q, at.group, row)), own.dk.data(), own.dv.data()}, work);
      }
      kept.round(own.dk);
      kept.round(own.dv);
    }
  });
  for (std::int64_t head = 0; head < size; ++head) {
    add(heads[head].dk, sums.k.data.data() + head / n.heads * k_size);
    add(heads[head].dv, sums.v.data.data() + head / n.heads * v_size);
  }
  return sums;
}

BranchGradients Backward::through(Branch branch, const Tensor& d_o, const RowRule& rule) const {
  const Sizes& n = forward_.sizes();
  BranchGradients sums = no_gradients(forward_, branch);
  const auto k_size = static_cast<std::int64_t>(sums.k.data.size()) / n.batch_groups();
  const auto v_size = static_cast<std::int64_t>(sums.v.data.size()) / n.batch_groups();
  for (std::int64_t group = 0; group < n.batch_groups(); ++group) {
    std::vector<KeySums> lanes(kRowLanes);
    // Rows lane, lane + kRowLanes, ...: early and late rows, which differ in work, in every lane.
    const auto run_lane = [&](std::int64_t lane) {
      KeySums& own = lanes[lane];
      own.dk.assign(static_cast<std::size_t>(k_size), 0.0);
      own.dv.assign(static_cast<std::size_t>(v_size), 0.0);
      AttendWork work;
      for (std::int64_t row = lane; row < n.rows; row += kRowLanes) {
        rule(group,
             row,
             head_rows(d_o, group, row),
             {head_rows(sums.q, group, row), own.dk.data(), own.dv.data()},
             work);
      }
    };
    parallel_for(kRowLanes, 1, forward_.layer().threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t lane = begin; lane < end; ++lane) {
        run_lane(lane);
      }
    });
    for (const KeySums& lane : lanes) {
      add(lane.dk, sums.k.data.data() + group * k_size);
      add(lane.dv, sums.v.data.data() + group * v_size);
    }
  }
  return sums;
}

void Backward::add_key_gradients(Branch branch,
                                 const BranchGradients& through,
                                 Tensor& dx,
                                 Weights& weights) const {
  add_key_gradients(forward_.layer(), branch, through, dx, weights);
}

void Backward::add_key_gradients(const Layer& layer,
                                 Branch branch,
                                 const BranchGradients& through,
                                 Tensor& dx,
                                 Weights& weights) const {
  Tensor dk = through.k;
  Tensor dv = through.v;
  if (branch == Branch::cmp) {
    dk = compress_gradients(layer, PhiOf::keys, forward_.input(Stage::k_raw), dk, weights);
    dv = compress_gradients(layer, PhiOf::values, forward_.input(Stage::v_raw), dv, weights);
  }
  const std::string name = branch_name(branch);
  projection_gradients(layer,
                       "W_K_" + name + ".weight",
                       unrotated(std::move(dk), layer, forward_.token_positions()),
                       forward_.x(),
                       dx,
                       weights);
  projection_gradients(layer, "W_V_" + name + ".weight", dv, forward_.x(), dx, weights);
}

AttentionGradients Backward::gradients() const {
  return finished(forward_.layer(),
                  {&through(Branch::cmp), &through(Branch::sel), &through(Branch::win)});
}

AttentionGradients Backward::gradients_added_narrow() const {
  Layer layer = forward_.layer();
  layer.kept.narrow_sums = true;
  return finished(layer, {&through(Branch::cmp), &through(Branch::sel), &through(Branch::win)});
}

AttentionGradients Backward::gradients(Branch branch, const BranchGradients& other) const {
  std::array<const BranchGradients*, 3> branches{};
  for (const Branch each : kBranches) {
    branches[index_of(each)] = each == branch ? &other : &through(each);
  }
  return finished(forward_.layer(), branches);
}

AttentionGradients Backward::finished(const Layer& layer,
                                      const std::array<const BranchGradients*, 3>& branches) const {
  AttentionGradients gradients;
  gradients.x = zeros(forward_.x().shape);
  gradients.q = zeros(forward_.shape_of(Stage::q));
  gradients.weights["out.weight"] = dout_weight_;
  Tensor dq_of_gate = zeros(gradients.q.shape);
  Tensor dx_of_gate = zeros(forward_.x_of_rows().shape);
  if (forward_.options().gate_override) {  // a constant passes nothing on
    for (const auto& [name, weight] : layer.weights) {
      if (name.rfind("gate.", 0) == 0) {
        gradients.weights[name] = zeros(weight.shape);
      }
    }
  } else {
    add_gate_gradients(layer,
                       {forward_.input(Stage::q), forward_.x_of_rows()},
                       forward_.gate_as_computed(),
                       dgate_,
                       dq_of_gate,
                       dx_of_gate,
                       gradients.weights);
  }
  for (const BranchGradients* branch : branches) {
    add(branch->q, gradients.q);
    if (layer.kept.narrow_sums) layer.kept.round(gradients.q.data);
  }
  add(dq_of_gate, gradients.q);
  layer.kept.round(gradients.q.data);
  const Sizes& n = forward_.sizes();
  const Tensor dq =
      reshaped(gradients.q, {n.batch, layer.config.n_heads, n.rows, layer.config.d_k});
  Tensor dx_rows = zeros(forward_.x_of_rows().shape);
  projection_gradients(layer,
                       "W_Q.weight",
                       unrotated(dq, layer, forward_.rows()),
                       forward_.x_of_rows(),
                       dx_rows,
                       gradients.weights);
  scatter_rows(dx_rows, forward_.rows(), gradients.x);
  for (const Branch branch : kBranches) {
    add_key_gradients(layer, branch, *branches[index_of(branch)], gradients.x, gradients.weights);
  }
  scatter_rows(dx_of_gate, forward_.rows(), gradients.x);
  layer.kept.round(gradients.x.data, layer.kept.input);
  gradients.k_cmp = branches[index_of(Branch::cmp)]->k;
  gradients.v_cmp = branches[index_of(Branch::cmp)]->v;
  gradients.o_cmp = of_output(Branch::cmp);
  gradients.o_sel = of_output(Branch::sel);
  gradients.o_win = of_output(Branch::win);
  gradients.gate = dgate_;
  return gradients;
}

std::vector<Stage> stages_on_the_way(std::string_view of, const AttentionConfig& config) {
  StageSet reached = {};
  std::vector<Stage> way;
  for (const StageRow& row : kStageTable) {
    if (is_of_choice(row)) continue;  // no gradient passes the choice of blocks
    const bool of_queries = row.stage != Stage::gate || config.gate == Gate::group_softmax;
    const bool enters = of == "x" ? row.of_x : !row.weights.empty() && of.starts_with(row.weights);
    if (!enters && !(of_queries && row.made_of.meets(reached))) continue;
    reached.add(row.stage);
    way.insert(way.begin(), row.stage);
  }
  return way;
}

}  // namespace oracles
