#include "harness/checks/stage_laws.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/checks/rope_laws.h"
#include "oracles/attention/gate.h"
#include "oracles/attention/rope.h"

namespace harness::checks {
namespace {

using oracles::Branch;
using oracles::Tensor;

constexpr const char* kForward = "NUMERIC.FORWARD";
constexpr const char* kOverride = "GATE.OVERRIDE";

// Same elements, in the order given, under the shape of `like`.
Tensor under_shape(Tensor tensor, const Tensor& like) {
  tensor.shape = like.shape;
  return tensor;
}

// The heads of [B,H,R,D] in memory order of [B,R,H,D], taken for [B,H,R,D]: a reshape without a transpose. And back.
Tensor put_together(const Tensor& heads, std::int64_t lanes) {
  const oracles::Shape& shape = heads.shape;
  const std::int64_t rows = shape[shape.size() - 2];
  const oracles::Shape flat = {shape[0], lanes, rows, shape.back()};
  return under_shape(oracles::merge_heads(oracles::reshaped(heads, flat)), heads);
}
Tensor taken_apart(const Tensor& heads, std::int64_t lanes) {
  const oracles::Shape& shape = heads.shape;
  const std::int64_t rows = shape[shape.size() - 2];
  const oracles::Shape flat = {shape[0], rows, lanes * shape.back()};
  return under_shape(oracles::split_heads(oracles::reshaped(heads, flat), lanes), heads);
}

// Every group gets what belongs to the one `by` places after it.
Tensor groups_shifted(const Tensor& keys, std::int64_t by) {
  Tensor out = keys;
  const std::int64_t groups = keys.shape[1];
  const std::int64_t size = keys.shape[2] * keys.shape[3];
  for (std::int64_t list = 0; list < keys.shape[0] * groups; ++list) {
    const std::int64_t from = list / groups * groups + (list % groups + by) % groups;
    std::copy_n(keys.data.begin() + from * size, size, out.data.begin() + list * size);
  }
  return out;
}

Tensor scaled(Tensor tensor, double factor) {
  for (double& value : tensor.data) value *= factor;
  return tensor;
}

std::size_t index_of(Branch branch) {
  return static_cast<std::size_t>(branch);
}

constexpr std::array kNames = {"cmp", "sel", "win"};
constexpr std::array<std::array<std::size_t, 3>, 5> kOrders = {
    {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};

std::string order_text(const std::array<std::size_t, 3>& order) {
  return std::string(kNames[order[0]]) + ", " + kNames[order[1]] + ", " + kNames[order[2]];
}

Tensor reordered(const Tensor& gate, const std::array<std::size_t, 3>& order) {
  Tensor out = gate;
  for (std::size_t i = 0; i < gate.data.size(); i += 3) {
    for (std::size_t k = 0; k < 3; ++k) out.data[i + k] = gate.data[i + order[k]];
  }
  return out;
}

}  // namespace

std::optional<Law> StageLaws::explain(const std::string& tensor,
                                      const Tensor& wanted,
                                      const std::vector<std::size_t>& wrong,
                                      double relative_limit) const {
  Explanation found(record_.at(tensor), wanted, wrong, relative_limit);
  const std::string suffix = suffix_of(tensor);
  if (tensor == "q") {
    consider_rotations("W_Q.weight", found);
    found.consider_lanes(record_.config.n_heads, "head");
  } else if (tensor == "k_cmp" || tensor == "v_cmp") {
    consider_phi(tensor, found);
  } else if (tensor[0] == 'k' || tensor[0] == 'v') {
    const std::string branch = suffix == "raw" ? "cmp" : suffix;
    consider_shared(tensor, found);
    if (tensor[0] == 'k') consider_rotations("W_K_" + branch + ".weight", found);
    found.consider_lanes(record_.config.n_kv_groups, "group");
  } else if (tensor[0] == 'o') {
    const Branch branch = suffix == "cmp"   ? Branch::cmp
                          : suffix == "sel" ? Branch::sel
                                            : Branch::win;
    consider_keys(branch, found);
    if (const auto law = found.law(); law && law->code != kForward) return law;
    consider_other_inputs(branch, found);
    found.consider_lanes(record_.config.n_heads, "head");
  } else if (tensor == "gate") {
    consider_gates(wanted, found);
  } else if (tensor == "y") {
    consider_mixes(found);
  }
  consider_layouts(wanted, found);
  found.consider_factor();
  if (record_.arithmetic.stored < 0x1p-8) found.consider_bfloat16();
  return found.law();
}

void StageLaws::consider_rotations(const std::string& weight, Explanation& found) const {
  const std::vector<std::int64_t> positions =
      weight == "W_Q.weight" ? record_.rows : first_positions(record_.length);
  for (const RopeLaw& law : rope_laws(record_.config, positions, stages_.projected(weight))) {
    found.consider({law.name, kForward, law.about}, law.output);
  }
}

// The projection of another branch in place of its own.
void StageLaws::consider_shared(const std::string& tensor, Explanation& found) const {
  for (const char* other : {"raw", "sel", "win"}) {
    const std::string name = std::string(1, tensor[0]) + "_" + other;
    if (name == tensor) continue;
    const std::string branch = std::string(other) == "raw" ? "cmp" : other;
    const std::string param = (tensor[0] == 'k' ? "W_K_" : "W_V_") + branch;
    found.consider({"shared " + param, kForward, "it was projected with " + param, "project"},
                   stages_.wanted(name));
  }
}

void StageLaws::consider_layouts(const Tensor& wanted, Explanation& found) const {
  if (wanted.shape.size() < 4 || record_.is_sample()) return;
  const std::int64_t rows = wanted.shape[wanted.shape.size() - 2];
  const std::int64_t lanes = static_cast<std::int64_t>(wanted.data.size()) /
                             std::max<std::int64_t>(1, record_.batch * rows * wanted.shape.back());
  if (lanes < 2 || rows < 2) return;
  const char* about = "heads and rows are taken for each other: a reshape without a transpose";
  found.consider({"not_transposed", kForward, about}, put_together(wanted, lanes));
  found.consider({"not_transposed", kForward, about}, taken_apart(wanted, lanes));
}

void StageLaws::consider_phi(const std::string& tensor, Explanation& found) const {
  const bool keys = tensor == "k_cmp";
  const auto which = keys ? oracles::PhiOf::keys : oracles::PhiOf::values;
  // The weights of the other one.
  oracles::Weights swapped = record_.weights;
  bool any = false;
  for (const auto& [name, weight] : record_.weights) {
    const std::string own = keys ? "phi_k" : "phi_v";
    if (name.rfind(own, 0) != 0) continue;
    const Tensor& other = record_.weights.at((keys ? "phi_v" : "phi_k") + name.substr(own.size()));
    any = true;
    if (other.shape != weight.shape) return;
    swapped[name] = other;
  }
  if (any) {
    const std::string param = keys ? "phi_v" : "phi_k";
    found.consider({"other_phi", kForward, "it was compressed with the weights " + param},
                   stages_.compressed(which, swapped));
  }
  if (!keys) return;
  const oracles::Layer layer{record_.config, record_.weights, 0};
  const std::vector<std::int64_t> positions = first_positions(record_.length);
  Tensor z = stages_.input("k_raw");
  oracles::rotate(z, record_.config, positions, oracles::Turn::backward);
  for (const RopeLaw& law : rope_laws(record_.config, positions, z)) {
    found.consider({law.name, kForward, "of the keys that enter the compression: " + law.about},
                   oracles::compress(layer, which, law.output));
  }
}

void StageLaws::consider_keys(Branch branch, Explanation& found) const {
  for (const oracles::KeyLaw& law : oracles::key_laws()) {
    if (std::find(law.branches.begin(), law.branches.end(), branch) == law.branches.end()) continue;
    found.consider({std::string(law.name),
                    code_of_key_law(law.name),
                    "a query sees " + std::string(law.about)},
                   stages_.laws().output(law.name, branch));
  }
}

// The right keys of the wrong group or branch, or another scale of the logits.
void StageLaws::consider_other_inputs(Branch branch, Explanation& found) const {
  const oracles::AttendInputs own = stages_.attend_inputs();
  const auto consider = [&](Law law, const oracles::AttendInputs& inputs) {
    found.consider(std::move(law),
                   oracles::KeyLawOutputs(record_.config, inputs).right_output(branch));
  };
  const std::size_t i = index_of(branch);
  for (std::int64_t by = 1; by < record_.config.n_kv_groups; ++by) {
    oracles::AttendInputs other = own;
    other.k[i] = groups_shifted(own.k[i], by);
    other.v[i] = groups_shifted(own.v[i], by);
    consider({"group_off_by_" + std::to_string(by),
              kForward,
              "a head attends the keys and values of another group"},
             other);
  }
  const double root = std::sqrt(static_cast<double>(record_.config.d_k));
  for (const auto& [name, factor] :
       {std::pair{"logits_not_scaled", root}, std::pair{"logits_scaled_twice", 1.0 / root}}) {
    oracles::AttendInputs other = own;
    other.q = scaled(own.q, factor);
    consider({name, kForward, "the factor 1/sqrt(d_k) of the logits is not applied once"}, other);
  }
  if (branch == Branch::cmp) return;
  const std::size_t j = index_of(branch == Branch::sel ? Branch::win : Branch::sel);
  const std::string mine = kNames[i];
  const std::string theirs = kNames[j];
  for (const auto& [k, v] :
       {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}}) {
    oracles::AttendInputs other = own;
    if (k) other.k[i] = own.k[j];
    if (v) other.v[i] = own.v[j];
    const std::string what = k && v ? "keys and values" : k ? "keys" : "values";
    consider({"shared " + std::string(k ? "W_K_" : "W_V_") + theirs,
              kForward,
              "the " + what + " of branch " + theirs + " are attended",
              "",
              (k ? "W_K_" : "W_V_") + mine},
             other);
  }
}

void StageLaws::consider_gates(const Tensor& wanted, Explanation& found) const {
  const Tensor learned = stages_.learned_gate();
  if (record_.gate_override) {
    found.consider({"learned", kOverride, "the learned gate stands where a constant was asked for"},
                   learned);
  }
  for (const auto& order : kOrders) {
    found.consider({"order " + order_text(order), kForward, "the gates are in this order"},
                   reordered(wanted, order));
  }
  found.consider({"uniform", kForward, "every branch has one third"},
                 oracles::filled(wanted.shape, 1.0 / 3.0));
}

// y from the recorded branches and gate, put together in another way.
void StageLaws::consider_mixes(Explanation& found) const {
  const std::array<const Tensor*, 3> o = {
      &stages_.input("o_cmp"), &stages_.input("o_sel"), &stages_.input("o_win")};
  const Tensor& gate = stages_.input("gate");
  if (record_.gate_override) {
    found.consider({"learned",
                    kOverride,
                    "the output is mixed with the learned gate where a constant was asked for",
                    "gate"},
                   stages_.mixed(stages_.learned_gate(), o));
  }
  for (const auto& order : kOrders) {
    found.consider({"order " + order_text(order), kForward, "the branches are mixed in this order"},
                   stages_.mixed(reordered(gate, order), o));
  }
  if (record_.is_sample()) return;
  std::array<Tensor, 3> scrambled;
  for (std::size_t i = 0; i < 3; ++i) scrambled[i] = taken_apart(*o[i], record_.config.n_heads);
  found.consider({"not_transposed",
                  kForward,
                  "heads and rows are taken for each other: a reshape without a transpose"},
                 stages_.mixed(gate, {&scrambled[0], &scrambled[1], &scrambled[2]}));
}

}  // namespace harness::checks
