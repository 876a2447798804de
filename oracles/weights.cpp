#include "oracles/weights.h"

#include <stdexcept>

namespace oracles {
namespace {

void add_phi_shapes(std::map<std::string, Shape>& shapes,
                    const AttentionConfig& c,
                    const std::string& name,
                    std::int64_t width) {
  if (c.phi == Phi::conv) {
    shapes[name + "_conv.weight"] = {width, 1, c.l};
  } else if (c.phi == Phi::mlp) {
    shapes[name + ".pe"] = {c.l, width};
    shapes[name + ".fc1.weight"] = {2 * width, c.l * width};
    shapes[name + ".fc2.weight"] = {width, 2 * width};
  }
}

}  // namespace

std::map<std::string, Shape> weight_shapes(const AttentionConfig& c) {
  std::map<std::string, Shape> shapes;
  shapes["W_Q.weight"] = {c.n_heads * c.d_k, c.dim};
  for (const char* branch : {"cmp", "sel", "win"}) {
    shapes[std::string("W_K_") + branch + ".weight"] = {c.n_kv_groups * c.d_k, c.dim};
    shapes[std::string("W_V_") + branch + ".weight"] = {c.n_kv_groups * c.d_v, c.dim};
  }
  shapes["out.weight"] = {c.dim, c.n_heads * c.d_v};
  if (c.gate == Gate::group_softmax) {
    shapes["gate.fc1.weight"] = {c.gate_width(), c.d_k};
    shapes["gate.fc1.bias"] = {c.gate_width()};
    shapes["gate.fc2.weight"] = {3, c.gate_width()};
    shapes["gate.fc2.bias"] = {3};
  } else {
    shapes["gate.proj.weight"] = {3 * c.n_heads, c.dim};
  }
  add_phi_shapes(shapes, c, "phi_k", c.d_k);
  add_phi_shapes(shapes, c, "phi_v", c.d_v);
  return shapes;
}

void validate(const Weights& weights, const AttentionConfig& config) {
  validate(weights, weight_shapes(config), "weight");
}

void validate(const Weights& weights,
              const std::map<std::string, Shape>& shapes,
              const std::string& what) {
  for (const auto& [name, shape] : shapes) {
    const auto found = weights.find(name);
    if (found == weights.end()) throw std::invalid_argument(what + " " + name + " is missing");
    require_shape(found->second, shape, name);
    require_finite(found->second, name);
  }
  for (const auto& [name, weight] : weights) {
    if (shapes.count(name) == 0) {
      throw std::invalid_argument(what + " " + name + " is not one of this model's");
    }
  }
}

}  // namespace oracles
