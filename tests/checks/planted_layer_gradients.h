// Gradients of single attention layers (kind attention): of which weights, heads and tokens they are wrong.
#pragma once

#include <set>

#include "tests/checks/planted_layers.h"

namespace fixtures {

// The share of some heads in the gradient of a weight counts another number of times than once.
inline std::function<void(Healthy&)> heads_counted(int layer,
                                                   const std::string& weight,
                                                   const std::map<std::int64_t, double>& counts) {
  return [=](Healthy& h) {
    LayerTensors tensors = healthy_layer(0, layer);
    const oracles::AttentionConfig config = harness::checks::oracle_config(toy_model());
    oracles::AttentionOptions options;
    options.replay = tensors.blocks;
    for (const auto& [head, count] : counts) {
      oracles::Weights weights = random_weights(layer);
      oracles::Tensor& out = weights.at("out.weight");
      for (std::size_t i = 0; i < out.data.size(); ++i) {
        const auto column = static_cast<std::int64_t>(i) % out.shape.back();
        if (column / config.d_v != head) out.data[i] = 0.0;
      }
      const oracles::AttentionPass pass = oracles::attention_with_gradients(
          config, weights, tensors.reals.at("x"), tensors.reals.at("dy"), options);
      const oracles::Tensor& share = pass.gradients.weights.at(weight);
      for (std::size_t i = 0; i < share.data.size(); ++i) {
        tensors.reals.at("g.w." + weight).data[i] += (count - 1.0) * share.data[i];
      }
    }
    h.write_layer(0, 1, 0, layer, tensors);
  };
}

// Some gradients of layer 1 are left zero; phi has weights.
inline std::function<void(Healthy&)> compression_spoiled(const std::set<std::string>& zeros) {
  return [=](Healthy& h) {
    nsa::ModelConfig& model = h.evidence.the_case.scenario.model;
    model.phi = nsa::Phi::mlp;
    for (int layer = 0; layer < 3; ++layer) {
      LayerSetting setting;
      setting.model = model;
      setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
        if (layer == 1 && zeros.count(name) > 0) tensor = oracles::zeros(tensor.shape);
      };
      h.write_layer(0, 1, 0, layer, made_layer(setting, 0, layer));
    }
  };
}

inline void add_layer_gradients(std::vector<Planted>& list) {
  const auto add = [&](const std::string& name,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    list.push_back(alone("close_to_oracle", name, Verdict::fail, code, site, spoil));
  };
  add("a gradient of a gate that is a constant",
      "NUMERIC.GRADIENT",
      R"({"layers":[2],"param":"gate.fc1","phase":"backward"})",
      [](Healthy& h) {
        h.evidence.the_case.scenario.attention.gate = "win";
        for (int layer = 0; layer < 3; ++layer) {
          LayerSetting setting;
          setting.gate_override = {0.0, 0.0, 1.0};
          LayerTensors tensors = made_layer(setting, 0, layer);
          if (layer == 2) {
            tensors.reals["g.w.gate.fc1.weight"] =
                random_tensor(tensors.reals.at("w.gate.fc1.weight").shape, 1.0, 3);
          }
          h.write_layer(0, 1, 0, layer, tensors);
        }
      });
  const std::string one_head =
      R"({"layers":[2],"branch":"sel","heads":[3],"phase":"backward",
          "detail":{"groups":[1],"law":"shares_of_heads"}})";
  add("a position code that gets no gradient",
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"branch":"cmp","op":"compress","param":"phi_k.pe","phase":"backward"})",
      compression_spoiled({"g.w.phi_k.pe"}));
  add("a compression whose input and weights get no gradient, one apart",
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"branch":"cmp","op":"compress"})",
      compression_spoiled({"g.w.phi_k.pe", "g.w.phi_k.fc1.weight", "g.w.W_K_cmp.weight"}));
  add("compressed keys that get no gradient",
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"branch":"cmp","op":"attend_cmp"})",
      compression_spoiled(
          {"g.w.phi_k.pe", "g.w.phi_k.fc1.weight", "g.w.phi_k.fc2.weight", "g.w.W_K_cmp.weight"}));
  add("one head's share of the values' gradient counts more",
      "NUMERIC.GRADIENT",
      one_head,
      heads_counted(2, "W_V_sel.weight", {{3, 1.25}}));
  add("one head's share of the keys' gradient is left out",
      "NUMERIC.GRADIENT",
      one_head,
      heads_counted(2, "W_K_sel.weight", {{3, 0.0}}));
  add("heads of two groups count more and less",
      "NUMERIC.GRADIENT",
      R"({"branch":"win","heads":[0,2],"detail":{"groups":[0,1],"law":"shares_of_heads"}})",
      heads_counted(1, "W_V_win.weight", {{0, 0.5}, {2, 1.25}}));
  add("a gradient that is no share of any head's",
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"branch":"win","heads":[2,3],"detail":{"groups":[1]}})",
      [](Healthy& h) {
        LayerTensors tensors = healthy_layer(0, 1);
        tensors.reals.at("g.w.W_V_win.weight").data.at(4 * 16 + 3) += 1.0;
        h.write_layer(0, 1, 0, 1, tensors);
      });
  add("the gradient of one head's queries",
      "NUMERIC.GRADIENT",
      R"({"layers":[0],"param":"","heads":[2],"detail":{"groups":[1]}})",
      [](Healthy& h) {
        LayerTensors tensors = healthy_layer(0, 0);
        tensors.reals.at("g.w.W_Q.weight").data.at(2 * 4 * 16 + 5) += 1.0;
        h.write_layer(0, 1, 0, 0, tensors);
      });
  add("the gradient of the last tokens",
      "NUMERIC.GRADIENT",
      R"({"layers":[1],"rows":[30,31],"phase":"backward"})",
      [](Healthy& h) {
        LayerTensors tensors = healthy_layer(0, 1);
        tensors.reals.at("dx").data.at(30 * 16 + 2) += 1.0;
        tensors.reals.at("dx").data.at(31 * 16 + 5) -= 1.0;
        h.write_layer(0, 1, 0, 1, tensors);
      });
}

}  // namespace fixtures
