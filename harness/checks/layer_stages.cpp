#include "harness/checks/layer_stages.h"

#include <numeric>
#include <stdexcept>

#include "oracles/attention/gate.h"
#include "oracles/attention/rope.h"
#include "oracles/linear.h"

namespace harness::checks {

using oracles::Branch;
using oracles::Tensor;

std::vector<std::int64_t> first_positions(std::int64_t count) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

std::string suffix_of(const std::string& tensor) {
  const std::size_t at = tensor.find('_');
  return at == std::string::npos || tensor == "p_grp" ? "" : tensor.substr(at + 1);
}

LayerStages::LayerStages(const LayerRecord& record)
    : record_(record),
      x_BRE_(record.is_sample() ? oracles::gather_rows(record.x, record.rows) : record.x) {}

const Tensor& LayerStages::input(const std::string& name) const {
  if (record_.has(name)) return record_.at(name);
  const auto known = own_.find(name);
  return known != own_.end() ? known->second : own_.emplace(name, wanted(name)).first->second;
}

Tensor LayerStages::projected(const std::string& weight) const {
  const bool of_queries = weight == "W_Q.weight";
  const Tensor& w = record_.weights.at(weight);
  return oracles::split_heads(oracles::linear(of_queries ? x_BRE_ : record_.x, w, 0),
                              of_queries ? record_.config.n_heads : record_.config.n_kv_groups);
}

Tensor LayerStages::rotated(Tensor heads, bool of_queries) const {
  oracles::rotate(heads,
                  record_.config,
                  of_queries ? record_.rows : first_positions(record_.length),
                  oracles::Turn::forward);
  return heads;
}

Tensor LayerStages::compressed(oracles::PhiOf which, const oracles::Weights& weights) const {
  const oracles::Layer layer{record_.config, weights, 0};
  return oracles::compress(layer, which, input(which == oracles::PhiOf::keys ? "k_raw" : "v_raw"));
}

Tensor LayerStages::learned_gate() const {
  const oracles::Layer layer{record_.config, record_.weights, 0};
  return oracles::gate(layer, {input("q"), x_BRE_});
}

// y = W_out . heads one after the other of g_cmp o_cmp + g_sel o_sel + g_win o_win (SPEC 2).
Tensor LayerStages::mixed(const Tensor& gate, const std::array<const Tensor*, 3>& o) const {
  const std::int64_t h = record_.config.heads_per_group();
  const std::int64_t rows = record_.row_count();
  const std::int64_t width = record_.config.d_v;
  const oracles::GateIndex index(record_.config, rows);
  Tensor sum = oracles::zeros({record_.batch, record_.config.n_heads, rows, width});
  for (std::int64_t place = 0; place < record_.lists() * h * rows; ++place) {
    const std::int64_t head = place / rows;
    const double* g = gate.data.data() + index.at(head / h, head % h, place % rows);
    for (std::int64_t c = place * width; c < (place + 1) * width; ++c) {
      const auto i = static_cast<std::size_t>(c);
      sum.data[i] = g[0] * o[0]->data[i] + g[1] * o[1]->data[i] + g[2] * o[2]->data[i];
    }
  }
  return oracles::linear(oracles::merge_heads(sum), record_.weights.at("out.weight"), 0);
}

oracles::AttendInputs LayerStages::attend_inputs() const {
  return {record_.rows,
          input("q"),
          {input("k_cmp"), input("k_sel"), input("k_win")},
          {input("v_cmp"), input("v_sel"), input("v_win")},
          usable_blocks(record_)};
}

const oracles::KeyLawOutputs& LayerStages::laws() const {
  if (!laws_) laws_ = std::make_unique<oracles::KeyLawOutputs>(record_.config, attend_inputs());
  return *laws_;
}

Tensor LayerStages::wanted(const std::string& name) const {
  const std::string suffix = suffix_of(name);
  const std::string branch = suffix == "raw" ? "cmp" : suffix;
  if (name == "q") {
    Tensor q = rotated(projected("W_Q.weight"), true);
    const oracles::AttentionConfig& c = record_.config;
    return oracles::reshaped(
        std::move(q),
        {record_.batch, c.n_kv_groups, c.heads_per_group(), record_.row_count(), c.d_k});
  }
  if (name == "k_cmp") return compressed(oracles::PhiOf::keys, record_.weights);
  if (name == "v_cmp") return compressed(oracles::PhiOf::values, record_.weights);
  if (name.rfind("k_", 0) == 0) return rotated(projected("W_K_" + branch + ".weight"), false);
  if (name.rfind("v_", 0) == 0) return projected("W_V_" + branch + ".weight");
  if (name == "o_cmp") return laws().right_output(Branch::cmp);
  if (name == "o_sel") return laws().right_output(Branch::sel);
  if (name == "o_win") return laws().right_output(Branch::win);
  if (name == "gate") {
    if (!record_.gate_override) return learned_gate();
    return oracles::constant_gate(record_.config, {input("q"), x_BRE_}, *record_.gate_override);
  }
  if (name == "y") return mixed(input("gate"), {&input("o_cmp"), &input("o_sel"), &input("o_win")});
  throw std::invalid_argument("no stage makes " + name);
}

}  // namespace harness::checks
