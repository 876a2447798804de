// Defects of single attention layers (kind attention): stage by stage, the choice of blocks, the
// future, what is written into and what is not finite.
#pragma once

#include "tests/checks/planted_numbers.h"

namespace fixtures {

inline Planted alone(const std::string& check,
                     const std::string& name,
                     Verdict verdict,
                     const std::string& code,
                     const std::string& site,
                     const std::function<void(Healthy&)>& spoil) {
  return {check, name, verdict, code, site, spoil, 1, 1, "attention"};
}

// One stage is spoiled in one layer; what follows from it follows.
inline std::function<void(Healthy&)> stage_spoiled(
    int layer, const std::string& stage, const std::function<void(oracles::Tensor&)>& spoil) {
  return [=](Healthy& h) {
    LayerSetting setting;
    setting.spoil = [=](const std::string& name, oracles::Tensor& tensor) {
      if (name == stage) spoil(tensor);
    };
    h.write_layer(0, 1, 0, layer, made_layer(setting, 0, layer));
  };
}

inline std::function<void(oracles::Tensor&)> one_more(std::size_t element, double by) {
  return [=](oracles::Tensor& tensor) { tensor.data.at(element) += by; };
}

inline std::function<void(Healthy&)> blocks_spoiled(
    int layer, const std::function<void(std::int64_t* row_31_of_group_1)>& spoil) {
  return [=](Healthy& h) {
    LayerTensors tensors = healthy_layer(0, layer);
    spoil(tensors.blocks.data.data() + (2 * kLength - 1) * toy_model().n_sel);
    h.write_layer(0, 1, 0, layer, tensors);
  };
}

inline void add_stages(std::vector<Planted>& list) {
  const std::string check = "close_to_oracle";
  // With one visible row only, an inverted mask and a row that is left out may look alike: neither is accused alone.
  list.push_back(alone(check,
                       "the only row that sees a compressed token is left zero",
                       Verdict::fail,
                       "NUMERIC.FORWARD",
                       R"({"layers":[1],"branch":"cmp","op":"attend_cmp"})",
                       [](Healthy& h) {
                         for (int layer = 0; layer < 3; ++layer) {
                           LayerSetting setting;
                           setting.length = setting.model.l;
                           if (layer == 1) {
                             setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
                               if (name == "o_cmp") {
                                 std::fill(tensor.data.begin(), tensor.data.end(), 0.0);
                               }
                             };
                           }
                           h.write_alone(layer, setting);
                         }
                       }));
  const auto add = [&](const std::string& name,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
    list.push_back(alone(check, name, Verdict::fail, code, site, spoil));
  };
  list.push_back(alone(check, "layers alone", Verdict::pass, "", "{}", kLeaveAsItIs));
  add("queries",
      "NUMERIC.FORWARD",
      R"({"layers":[1],"op":"rope","param":"W_Q","heads":[2],"rows":[3]})",
      stage_spoiled(1, "q", one_more((2 * kLength + 3) * 4, 1e-2)));
  for (const std::string branch : {"cmp", "sel", "win"}) {
    const std::string raw = branch == "cmp" ? "raw" : branch;
    add("keys of " + branch,
        "NUMERIC.FORWARD",
        R"({"layers":[2],"op":"rope","branch":")" + branch + R"(","param":"W_K_)" + branch +
            R"("})",
        stage_spoiled(2, "k_" + raw, one_more(17, 1e-2)));
    add("values of " + branch,
        "NUMERIC.FORWARD",
        R"({"layers":[2],"op":"project","branch":")" + branch + R"(","param":"W_V_)" + branch +
            R"("})",
        stage_spoiled(2, "v_" + raw, one_more(17, 1e-2)));
    add("outputs of " + branch,
        "NUMERIC.FORWARD",
        R"({"layers":[0],"op":"attend_)" + branch + R"(","branch":")" + branch + R"("})",
        stage_spoiled(0, "o_" + branch, one_more(300, 1e-2)));
  }
  for (const char* name : {"k_cmp", "v_cmp"}) {
    add(std::string("pooled ") + name,
        "NUMERIC.FORWARD",
        R"({"layers":[0],"op":"compress","branch":"cmp","detail":{"compressed_tokens":[4]}})",
        stage_spoiled(0, name, one_more(17, 1e-2)));
  }
  add("the gate of one row",
      "NUMERIC.FORWARD",
      R"({"layers":[0],"op":"gate","rows":[7]})",
      stage_spoiled(0, "gate", one_more(21, 1e-2)));
  add("the output",
      "NUMERIC.FORWARD",
      R"({"layers":[0],"op":"attention","rows":[1]})",
      stage_spoiled(0, "y", one_more(20, 1e-2)));
  add("keys shared between branches",
      "NUMERIC.FORWARD",
      R"({"op":"project","branch":"sel","param":"W_K_sel","detail":{"law":"weights_of_win"}})",
      [](Healthy& h) {
        const LayerTensors healthy = healthy_layer(0, 1);
        stage_spoiled(
            1, "k_sel", [&](oracles::Tensor& tensor) { tensor = healthy.reals.at("k_win"); })(h);
      });
  add("queries that are not rotated",
      "NUMERIC.FORWARD",
      R"({"op":"rope","param":"W_Q","detail":{"law":"rope_missing"}})",
      [](Healthy& h) {
        stage_spoiled(1, "q", [&](oracles::Tensor& tensor) {
          std::vector<std::int64_t> rows(kLength);
          std::iota(rows.begin(), rows.end(), 0);
          oracles::rotate(
              tensor, harness::checks::oracle_config(toy_model()), rows, oracles::Turn::backward);
        })(h);
      });
  add("heads permuted",
      "NUMERIC.FORWARD",
      R"({"op":"attend_win","heads":[0,1],"detail":{"law":"heads_permuted"}})",
      stage_spoiled(1, "o_win", [](oracles::Tensor& tensor) {
        const std::int64_t size = kLength * 4;
        std::swap_ranges(
            tensor.data.begin(), tensor.data.begin() + size, tensor.data.begin() + size);
      }));
  add("no gate override", "GATE.OVERRIDE", R"({"layers":[0,1,2],"op":"gate"})", [](Healthy& h) {
    h.evidence.the_case.scenario.attention.gate = "sel";
  });
  add("no gate override in the output alone",
      "GATE.OVERRIDE",
      R"({"layers":[1],"op":"gate","rows":[5]})",
      [](Healthy& h) {
        h.evidence.the_case.scenario.attention.gate = "all";
        const LayerTensors learned = healthy_layer(0, 1);
        for (int layer = 0; layer < 3; ++layer) {
          LayerSetting setting;
          setting.gate_override = {1.0, 1.0, 1.0};
          if (layer == 1) {
            setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
              if (name != "y") return;
              std::copy_n(
                  learned.reals.at("y").data.begin() + 5 * 16, 16, tensor.data.begin() + 5 * 16);
            };
          }
          h.write_layer(0, 1, 0, layer, made_layer(setting, 0, layer));
        }
      });
  list.push_back(alone(check, "constant gates", Verdict::pass, "", "{}", [](Healthy& h) {
    h.evidence.the_case.scenario.attention.gate = "cmp";
    for (int layer = 0; layer < 3; ++layer) {
      LayerSetting setting;
      setting.gate_override = {1.0, 0.0, 0.0};
      h.write_layer(0, 1, 0, layer, made_layer(setting, 0, layer));
    }
  }));
  list.push_back(
      alone(check, "a layer was not recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
        remove_if(h.evidence.artefacts, [](const auto& row) { return row.row.layer == 2; });
      }));
}

inline void add_selection(std::vector<Planted>& list) {
  const PlantedAdder add{list, "selection_valid", 1, 1, "attention"};
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("a block after the query",
      Verdict::fail,
      "RANGE.INVALID",
      R"({"layers":[1],"op":"select","rows":[6],"detail":{"row_count":1}})",
      [](Healthy& h) {
        LayerTensors tensors = healthy_layer(0, 1);
        tensors.blocks.data.at(static_cast<std::size_t>(6 * toy_model().n_sel + 2)) = 2;
        h.write_layer(0, 1, 0, 1, tensors);
      });
  add("a block twice",
      Verdict::fail,
      "SELECTION.WRONG",
      R"({"layers":[0],"op":"select","rows":[31],"detail":{"law":"not_a_legal_list"}})",
      blocks_spoiled(0, [](std::int64_t* row) { row[1] = row[0]; }));
  add("one block too few",
      Verdict::fail,
      "SELECTION.WRONG",
      R"({"layers":[2],"op":"select","rows":[31],"detail":{"row_count":1,"groups":[1]}})",
      blocks_spoiled(2, [](std::int64_t* row) {
        row[1] = row[2];
        row[2] = row[3];
        row[3] = -1;
      }));
  add("scores a little off, same blocks",
      Verdict::fail,
      "SELECTION.WRONG",
      R"({"layers":[1],"op":"score","rows":[20],"detail":{"row_count":1}})",
      [](Healthy& h) {
        LayerTensors tensors = healthy_layer(0, 1);
        tensors.reals.at("p_grp").data.at(20 * 8) += 1e-3;  // block 0 is forced
        h.write_layer(0, 1, 0, 1, tensors);
      });
  add("equal scores in another order",
      Verdict::fail,
      "SELECTION.WRONG",
      R"({"layers":[0],"op":"select"})",
      [](Healthy& h) {
        // All keys are equal, so that blocks of one size score the same; the higher index is taken.
        LayerSetting setting;
        setting.inputs = [](oracles::Tensor& x, oracles::Tensor&) {
          std::fill(x.data.begin(), x.data.end(), 0.0);
        };
        setting.spoil_blocks = [](oracles::IntTensor& blocks) {
          std::int64_t* last = blocks.data.data() + (2 * kLength - 1) * toy_model().n_sel;
          last[1] = 2;  // 0, 6, 7 are forced, and 1 comes first
        };
        h.write_layer(0, 1, 0, 0, made_layer(setting, 0, 0));
      });
  add("a tie within the bound", Verdict::pass, "", "{}", [](Healthy& h) {
    // Scores that are equal but for one unit in the last place, against the lower index.
    LayerSetting setting;
    setting.inputs = [](oracles::Tensor& x, oracles::Tensor&) {
      std::fill(x.data.begin(), x.data.end(), 0.0);
    };
    setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
      if (name != "p_grp") return;
      double& score = tensor.data.at((2 * kLength - 1) * 8 + 3);
      score *= 1.0 + 0x1p-22;
    };
    h.write_layer(0, 1, 0, 0, made_layer(setting, 0, 0));
  });
  add("nothing recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.artefacts.clear();
  });
}

inline void add_causal(std::vector<Planted>& list) {
  const auto perturbed_spoiled =
      [](int layer, const std::string& stage, const std::function<void(oracles::Tensor&)>& spoil) {
        return [=](Healthy& h) {
          LayerSetting setting = Healthy::perturbed({});
          setting.spoil = [=](const std::string& name, oracles::Tensor& tensor) {
            if (name == stage) spoil(tensor);
          };
          h.write_layer(0, 1, 0, layer, made_layer(setting, 0, layer), Healthy::kPerturbed);
        };
      };
  const PlantedAdder add{list, "causal", 1, 1, "attention"};
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("scores see the future",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[1],"op":"score","rows":[20]})",
      perturbed_spoiled(1, "p_grp", [](oracles::Tensor& t) { t.data.at(20 * 8 + 1) *= 1 + 1e-6; }));
  add("the window sees the future",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[2],"op":"attend_win","branch":"win","rows":[9],"phase":"forward"})",
      perturbed_spoiled(2, "o_win", [](oracles::Tensor& t) { t.data.at(9 * 4) += 1e-3; }));
  add("a compressed token of the prefix",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"op":"compress","branch":"cmp","detail":{"compressed_tokens":[9]}})",
      perturbed_spoiled(0, "k_cmp", [](oracles::Tensor& t) { t.data.at(9 * 4) += 1e-3; }));
  add("a compressed token that reaches beyond the prefix",
      Verdict::pass,
      "",
      "{}",
      perturbed_spoiled(0, "v_cmp", [](oracles::Tensor& t) { t.data.at(10 * 4) += 1e-3; }));
  add("a gradient of the future",
      Verdict::fail,
      "CAUSALITY.LEAK",
      R"({"layers":[1],"phase":"backward","rows":[25]})",
      perturbed_spoiled(1, "dx", [](oracles::Tensor& t) { t.data.at(25 * 16) = 1e-30; }));
  add("no second pass", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.samples.clear();
  });
  add("the second pass was not recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.artefacts,
              [](const auto& row) { return row.row.name == Healthy::kPerturbed; });
  });
  add("nothing was perturbed", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    for (int layer = 0; layer < 3; ++layer) {
      h.write_layer(0, 1, 0, layer, healthy_layer(0, layer), Healthy::kPerturbed);
    }
  });
}

inline void add_reference(std::vector<Planted>& list) {
  const PlantedAdder add{list, "close_to_reference", 1, 1, "attention"};
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  // Far below the first-principles ceiling, and still more than the plain implementation's
  // rounding.
  add("a branch that rounds more",
      Verdict::fail,
      "NUMERIC.FORWARD",
      R"({"layers":[1],"branch":"sel","op":"attend_sel"})",
      stage_spoiled(1, "o_sel", one_more(33, 6e-6)));
  add("a gradient that rounds more",
      Verdict::fail,
      "NUMERIC.GRADIENT",
      R"({"layers":[0],"branch":"win","param":"W_V_win","phase":"backward"})",
      [](Healthy& h) {
        LayerTensors tensors = healthy_layer(0, 0);
        double most = 0.0;
        for (const double value : tensors.reals.at("g.w.W_V_win.weight").data) {
          most = std::max(most, std::abs(value));
        }
        tensors.reals.at("g.w.W_V_win.weight").data.at(9) += 4e-6 * most;
        h.write_layer(0, 1, 0, 0, tensors);
      });
  // A fused backward takes the difference of two roundings where the plain one subtracts equal
  // numbers.
  add("what cancels in the gradient of keys", Verdict::pass, "", "{}", [](Healthy& h) {
    LayerTensors tensors = healthy_layer(0, 0);
    double most = 0.0;
    for (const auto& [name, tensor] : tensors.reals) {
      if (name.rfind("g.w.", 0) != 0) continue;
      for (const double value : tensor.data) most = std::max(most, std::abs(value));
    }
    tensors.reals.at("g.w.W_K_cmp.weight").data.at(9) += 4e-7 * most;
    h.write_layer(0, 1, 0, 0, tensors);
  });
  add("the plain one rounds as much", Verdict::pass, "", "{}", [](Healthy& h) {
    LayerTensors own = healthy_layer(0, 1);
    LayerTensors plain = own;
    own.reals.at("o_sel").data.at(33) += 6e-6;
    plain.reals.at("o_sel").data.at(70) -= 6e-6;
    h.write_layer(0, 1, 0, 1, own);
    h.write_layer(0, 1, 0, 1, plain, Healthy::kReference);
  });
  add("a NaN", Verdict::fail, "NUMERIC.FORWARD", R"({"op":"gate"})", [](Healthy& h) {
    LayerTensors tensors = healthy_layer(0, 1);
    tensors.reals.at("gate").data.at(5) = std::nan("");
    h.write_layer(0, 1, 0, 1, tensors);
  });
  add("other inputs", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.write_layer(0, 1, 0, 2, healthy_layer(1, 2), Healthy::kReference);
  });
  add("no reference", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.artefacts,
              [](const auto& row) { return row.row.name == Healthy::kReference; });
  });
}

}  // namespace fixtures
