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

inline void add_unmutated(std::vector<Planted>& list) {
  const std::string check = "unmutated";
  list.push_back(alone(check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs));
  list.push_back(alone(
      check,
      "ranges clamped in place",
      Verdict::fail,
      "ALIAS.MUTATED",
      R"({"layers":[1,2],"op":"select","detail":{"tensor":"blocks","written_by":"attend_sel","seen_by":"values"}})",
      [](Healthy& h) {
        put(h.evidence.mutations, 0, harness::Mutation{1, 1, "attend_sel", "blocks", 3, "values"});
        put(h.evidence.mutations, 0, harness::Mutation{1, 2, "attend_sel", "blocks", 4, "values"});
      }));
  list.push_back(alone(
      check,
      "a version counter alone",
      Verdict::fail,
      "ALIAS.MUTATED",
      R"({"op":"gate","detail":{"tensor":"x","seen_by":"version counter, all values as before"}})",
      [](Healthy& h) {
        put(h.evidence.mutations,
            0,
            harness::Mutation{1, 1, "gate", "x", 512, "version counter, all values as before"});
      }));
  list.push_back(alone(check, "nobody watched", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.facts.clear();
  }));
  list.push_back(
      alone(check, "no call was watched", Verdict::inconclusive, "", "{}", [](Healthy& h) {
        for (auto& row : h.evidence.facts) row.row.value = "0";
      }));
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

inline Planted decoded(const std::string& check,
                       const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil) {
  return {check, name, verdict, code, site, spoil, 1, 1, "decode"};
}

inline void add_decode(std::vector<Planted>& list) {
  const PlantedAdder add{list, "decode_equal", 1, 1, "decode"};
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("an output",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[1],"rows":[25],"op":"attention","detail":{"blocks":false,"layers_wrong":2}})",
      [](Healthy& h) {
        for (const int layer : {1, 2}) {
          LayerTensors steps = healthy_layer(0, layer);
          for (const int t : {25, 29})
            steps.reals.at("y").data.at(static_cast<std::size_t>(t * 16 + 3)) += 0.1;
          h.write_decoded(layer, healthy_layer(0, layer), steps);
        }
      });
  add("blocks alone",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[0],"rows":[31],"op":"select","detail":{"blocks":true}})",
      [](Healthy& h) {
        LayerTensors steps = healthy_layer(0, 0);
        steps.blocks.data.back() = -1;
        h.write_decoded(0, healthy_layer(0, 0), steps);
      });
  add("the operation that differs first",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[1],"rows":[25],"branch":"win","op":"attend_win"})",
      [](Healthy& h) {
        LayerTensors steps = healthy_layer(0, 1);
        steps.reals.at("o_win").data.at(25 * 4) += 0.1;
        steps.reals.at("y").data.at(25 * 16 + 3) += 0.1;
        h.write_decoded(1, healthy_layer(0, 1), steps);
      });
  add("compressed tokens that were never made",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[1],"branch":"cmp","op":"compress"})",
      [](Healthy& h) {
        LayerTensors steps = healthy_layer(0, 1);
        steps.reals.at("k_cmp") = oracles::zeros({1, 2, 14, 4});
        steps.reals.at("o_cmp").data.at(25 * 4) += 0.1;
        steps.reals.at("y").data.at(25 * 16 + 3) += 0.1;
        h.write_decoded(1, healthy_layer(0, 1), steps);
      });
  const auto forgets = [&](const char* made, const char* held, const char* branch) {
    add(std::string("a cache that changes ") + made,
        Verdict::fail,
        "DECODE.MISMATCH",
        R"({"layers":[1],"op":"cache","branch":")" + std::string(branch) + "\"}",
        [=](Healthy& h) {
          LayerTensors steps = healthy_layer(0, 1);
          steps.reals[std::string("made_") + made] = steps.reals.at(made);
          steps.reals[held] = steps.reals.at(made);
          steps.reals.at(held).data.at(1) += 0.1;
          steps.reals.at(std::string("o_") + branch).data.at(25 * 4) += 0.1;
          steps.reals.at("y").data.at(25 * 16 + 3) += 0.1;
          h.write_decoded(1, healthy_layer(0, 1), steps);
        });
  };
  forgets("k_cmp", "k_cmp", "cmp");
  forgets("v_sel", "held_v_sel", "sel");
  forgets("k_win", "held_k_win", "win");
  add("caches that change their tokens, and compressed tokens made of them",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[1],"op":"cache","branch":"sel"})",
      [](Healthy& h) {
        LayerTensors steps = healthy_layer(0, 1);
        steps.reals["held_k_sel"] = steps.reals.at("k_sel");
        for (const char* changed : {"held_k_sel", "k_cmp"}) {
          steps.reals.at(changed).data.at(1) += 0.1;
        }
        steps.reals.at("y").data.at(25 * 16 + 3) += 0.1;
        h.write_decoded(1, healthy_layer(0, 1), steps);
      });
  // Told first, and beside it what differs by itself: a gate is made of no cache, and a cache shows what was appended to it.
  add("a cache and a gate",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[1],"op":"cache","branch":"sel"})",
      [](Healthy& h) {
        LayerTensors steps = healthy_layer(0, 1);
        steps.reals["held_k_sel"] = steps.reals.at("k_sel");
        for (const char* changed : {"held_k_sel", "o_sel", "gate", "y"}) {
          steps.reals.at(changed).data.back() += 0.1;
        }
        h.write_decoded(1, healthy_layer(0, 1), steps);
      });
  add("another token", Verdict::fail, "DECODE.MISMATCH", R"({"op":"input"})", [](Healthy& h) {
    h.write_decoded(0, healthy_layer(0, 0), healthy_layer(1, 0));
  });
  add("a NaN", Verdict::fail, "DECODE.MISMATCH", R"({"rows":[22]})", [](Healthy& h) {
    LayerTensors steps = healthy_layer(0, 0);
    steps.reals.at("y").data.at(22 * 16) = std::nan("");
    h.write_decoded(0, healthy_layer(0, 0), steps);
  });
  add("rounding", Verdict::pass, "", "{}", [](Healthy& h) {
    LayerTensors steps = healthy_layer(0, 0);
    for (double& value : steps.reals.at("y").data) value *= 1.0 + 0x1p-23;
    h.write_decoded(0, healthy_layer(0, 0), steps);
  });
  // The last row's first block that it did not choose takes the place of one that it did; `near`: with nearly its score.
  const auto exchanged = [](oracles::Number number, double near) {
    return [=](Healthy& h) {
      LayerSetting setting;
      setting.number = number;
      LayerTensors whole = made_layer(setting, 0, 0);
      const auto n = static_cast<std::size_t>(toy_model().n_sel);
      const auto blocks = static_cast<std::size_t>(kLength / toy_model().l_sel);
      std::int64_t* const chosen = whole.blocks.data.data() + whole.blocks.data.size() - n;
      std::int64_t other = 1;
      while (std::find(chosen, chosen + n, other) != chosen + n) ++other;
      double* const scores =
          whole.reals.at("p_grp").data.data() + whole.reals.at("p_grp").data.size() - blocks;
      scores[other] = near * scores[chosen[1]];
      LayerTensors steps = whole;
      std::int64_t* const changed = steps.blocks.data.data() + steps.blocks.data.size() - n;
      changed[1] = other;
      std::sort(changed, changed + n);
      h.write_decoded(0, whole, steps);
    };
  };
  add("in bfloat16 a block of nearly the same score",
      Verdict::pass,
      "",
      "{}",
      exchanged(oracles::Number::bf16, 0.99));
  add("in bfloat16 a block of another score",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[0],"rows":[31],"op":"select"})",
      exchanged(oracles::Number::bf16, 0.2));
  add("in float32 a block of nearly the same score",
      Verdict::fail,
      "DECODE.MISMATCH",
      R"({"layers":[0],"rows":[31],"op":"select"})",
      exchanged(oracles::Number::f32, 0.99));
  add("no prompt", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.evidence.samples.clear(); });
  add("no steps", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.artefacts, [](const auto& row) { return row.row.name == "decode_steps"; });
  });
  add("a step short", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    for (auto& row : h.evidence.samples) row.row.value = 21.0;
  });
}

inline void add_decoded_finite(std::vector<Planted>& list) {
  const std::string check = "finite";
  list.push_back(decoded(check, "decoding", Verdict::pass, "", "{}", kLeaveAsItIs));
  list.push_back(decoded(check,
                         "a NaN of a decoded token",
                         Verdict::fail,
                         "NAN.ORIGIN",
                         R"({"layers":[1]})",
                         [](Healthy& h) {
                           LayerTensors steps = healthy_layer(0, 1);
                           steps.reals.at("y").data.at(22 * 16) = std::nan("");
                           h.write_decoded(1, healthy_layer(0, 1), steps);
                         }));
  list.push_back(decoded(
      check, "decoded tokens without a record", Verdict::inconclusive, "", "{}", [](Healthy& h) {
        remove_if(h.evidence.artefacts,
                  [](const auto& row) { return row.row.name == "decode_steps"; });
      }));
}

inline void add_reads(std::vector<Planted>& list) {
  const PlantedAdder add{list, "reads_count", 1, 1, "decode"};
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("a formula: whole blocks",
      Verdict::fail,
      "READS.MISMATCH",
      R"({"branch":"sel","layers":[0,1,2],"rows":[22],"detail":{"wanted":30,"found":32}})",
      [](Healthy& h) {
        for (auto& row : h.evidence.reads) {
          if (row.row.branch == "sel") row.row.tokens = 32;
        }
      });
  add("one token too many",
      Verdict::fail,
      "READS.MISMATCH",
      R"({"branch":"win","layers":[1],"rows":[30],"detail":{"counter":"win"}})",
      [](Healthy& h) {
        for (auto& row : h.evidence.reads) {
          if (row.row.branch == "win" && row.row.layer == 1 && row.row.step == 30) ++row.row.tokens;
        }
      });
  add("no counters", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.evidence.reads.clear(); });
  add("a position without counters", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.reads, [](const auto& row) { return row.row.step == 27; });
  });
}

inline void add_births(std::vector<Planted>& list) {
  const std::string check = "finite";
  const auto nan_rows = [](int layer, const std::string& stage, std::int64_t rows) {
    return stage_spoiled(layer, stage, [=](oracles::Tensor& tensor) {
      for (std::int64_t t = 0; t < rows; ++t)
        tensor.data.at(static_cast<std::size_t>(t * 4)) = std::nan("");
    });
  };
  const auto birth =
      [](const std::string& seam, const std::string& op, const std::string& direction) {
        harness::NanBirth row;
        row.step = 1;
        row.layer = 1;
        row.seam = seam;
        row.op = op;
        row.direction = direction;
        row.elements = 3;
        return row;
      };
  list.push_back(alone(check, "layers alone", Verdict::pass, "", "{}", kLeaveAsItIs));
  list.push_back(alone(check,
                       "rows without keys",
                       Verdict::fail,
                       "NAN.ORIGIN",
                       R"({"layers":[1],"op":"softmax","branch":"cmp","rows":[0,1,2],
                           "phase":"forward","detail":{"keys":0,"seam":"attend_cmp"}})",
                       [=](Healthy& h) {
                         nan_rows(1, "o_cmp", 3)(h);
                         put(h.evidence.nan_births, 0, birth("attend_cmp", "softmax", "forward"));
                       }));
  list.push_back(
      alone(check,
            "in the backward alone",
            Verdict::fail,
            "NAN.ORIGIN",
            R"({"layers":[1],"op":"mul","branch":"cmp","rows":[0,1],"phase":"backward"})",
            [=](Healthy& h) {
              LayerTensors tensors = healthy_layer(0, 1);
              tensors.reals.at("dx").data.at(3) = std::nan("");
              tensors.reals.at("dx").data.at(19) = std::nan("");
              h.write_layer(0, 1, 0, 1, tensors);
              put(h.evidence.nan_births, 0, birth("attend_cmp", "mul", "backward"));
            }));
  list.push_back(
      alone(check,
            "masked in the forward, not in the backward",
            Verdict::fail,
            "NAN.ORIGIN",
            R"({"layers":[1],"op":"softmax","branch":"cmp","rows":[0,1,2],"phase":"forward",
                "detail":{"keys":0}})",
            [=](Healthy& h) {
              LayerTensors tensors = healthy_layer(0, 1);
              for (std::size_t i = 0; i < 20 * 16; ++i)
                tensors.reals.at("dx").data.at(i) = std::nan("");
              tensors.reals.at("g.w.W_Q.weight").data.at(0) = std::nan("");
              h.write_layer(0, 1, 0, 1, tensors);
              harness::NanBirth row = birth("attend_cmp", "softmax", "forward");
              row.shape = {2, 2, 32, 15};
              row.elements = 4 * 3 * 15;  // heads, rows without keys, compressed tokens
              put(h.evidence.nan_births, 0, row);
            }));
  list.push_back(
      alone(check,
            "memory that nobody wrote, in the backward",
            Verdict::fail,
            "NAN.UNINIT",
            R"({"layers":[2],"op":"attend_sel","branch":"sel","rows":[30,31],"phase":"backward"})",
            [=](Healthy& h) {
              h.evidence.the_case.scenario.attention.poison = true;
              LayerTensors tensors = healthy_layer(0, 2);
              for (std::size_t i = 30 * 16; i < 32 * 16; ++i) {
                tensors.reals.at("dx").data.at(i) = std::nan("");
              }
              tensors.reals.at("g.w.W_K_sel.weight").data.at(5) = std::nan("");
              h.write_layer(0, 1, 0, 2, tensors);
              harness::NanBirth row = birth("", "fill", "forward");  // the poison itself
              row.layer = -1;
              row.poisoned = true;
              put(h.evidence.nan_births, 0, row);
            }));
  list.push_back(alone(check,
                       "memory that nobody wrote",
                       Verdict::fail,
                       "NAN.UNINIT",
                       R"({"layers":[2],"op":"attend_sel","branch":"sel","rows":[0,1,2,3]})",
                       [=](Healthy& h) {
                         h.evidence.the_case.scenario.attention.poison = true;
                         nan_rows(2, "o_sel", 4)(h);
                         harness::NanBirth row = birth("", "", "forward");
                         row.layer = -1;
                         row.poisoned = true;
                         put(h.evidence.nan_births, 0, row);
                       }));
  list.push_back(
      alone(check,
            "memory that a seam handed on",
            Verdict::fail,
            "NAN.UNINIT",
            R"({"layers":[1],"op":"attend_win","branch":"win"})",
            [=](Healthy& h) {
              nan_rows(1, "o_win", 4)(h);
              put(h.evidence.nan_births, 0, birth("attend_win", "aten::empty_like", "forward"));
            }));
  list.push_back(alone(check,
                       "a NaN that was written as a number, in the backward",
                       Verdict::fail,
                       "NAN.ORIGIN",
                       R"({"layers":[1],"op":"fill","phase":"backward"})",
                       [=](Healthy& h) {
                         LayerTensors tensors = healthy_layer(0, 1);
                         tensors.reals.at("dx").data.at(3) = std::nan("");
                         h.write_layer(0, 1, 0, 1, tensors);
                         harness::NanBirth row = birth("attend_sel", "fill", "backward");
                         row.largest_input = std::nan("");
                         put(h.evidence.nan_births, 0, row);
                       }));
  list.push_back(alone(check,
                       "an infinity that becomes a NaN",
                       Verdict::fail,
                       "NAN.ORIGIN",
                       R"({"layers":[1],"op":"sub","phase":"forward"})",
                       [=](Healthy& h) {
                         harness::NanBirth row = birth("attend_sel", "sub", "forward");
                         row.largest_input = INFINITY;
                         put(h.evidence.nan_births, 0, row);
                       }));
  list.push_back({check,
                  "an update of gradients that had overflowed",
                  Verdict::fail,
                  "NAN.ORIGIN",
                  R"({"op":"optimizer","step":1,"phase":"optimizer","ranks":[0]})",
                  [=](Healthy& h) {
                    each_gradient(h.evidence, 0, "", [](Gradient& row) { row.state = "inf"; });
                    harness::NanBirth row = birth("optimizer", "optimizer", "optimizer");
                    row.layer = -1;
                    put(h.evidence.nan_births, 0, row);
                  }});
  list.push_back({check,
                  "the optimizer divides by zero",
                  Verdict::fail,
                  "NAN.ORIGIN",
                  R"({"op":"optimizer","step":1,"phase":"optimizer","ranks":[0,1]})",
                  [=](Healthy& h) {
                    harness::NanBirth row = birth("optimizer", "div", "optimizer");
                    row.layer = -1;
                    put(h.evidence.nan_births, 0, row);
                    put(h.evidence.nan_births, 1, row);
                  }});
  list.push_back(alone(check, "no layers", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.artefacts.clear();
  }));
}

inline void add_gates(std::vector<Planted>& list) {
  const std::string check = "gate_alive";
  const auto add = [&](const std::string& name,
                       Verdict verdict,
                       const std::string& code,
                       const std::string& site,
                       const std::function<void(Healthy&)>& spoil,
                       int steps = 3) {
    list.push_back({check, name, verdict, code, site, spoil, 2, steps});
  };
  const auto each = [](int layer, const std::function<void(harness::GateUse&)>& change) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.gates) {
        if (row.row.layer == layer) change(row.row);
      }
    };
  };
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("rows all alike",
      Verdict::fail,
      "GATE.DEAD",
      R"({"layers":[1],"op":"gate"})",
      each(1, [](harness::GateUse& use) { use.spread = 1e-8; }));
  add("never moves",
      Verdict::fail,
      "GATE.DEAD",
      R"({"layers":[2],"op":"gate","ranks":[0,1]})",
      each(2, [](harness::GateUse& use) { use.hash = "same"; }));
  add("one branch has all",
      Verdict::fail,
      "GATE.COLLAPSED",
      R"({"layers":[0],"branch":"win","step":1})",
      each(0, [](harness::GateUse& use) {
        use.mean_win = 0.998;
        use.mean_cmp = use.mean_sel = 0.001;
        use.spread = 1e-3;
      }));
  add("one branch has all from the second step on",
      Verdict::fail,
      "GATE.COLLAPSED",
      R"({"layers":[0,1,2],"branch":"cmp","step":2})",
      [](Healthy& h) {
        for (auto& row : h.evidence.gates) {
          if (row.row.step < 2) continue;
          row.row.mean_cmp = 0.999;
          row.row.mean_sel = row.row.mean_win = 0.0005;
          row.row.spread = 1e-3;
        }
      });
  add("most rows have one branch, some another",
      Verdict::pass,
      "",
      "{}",
      each(0, [](harness::GateUse& use) {
        use.mean_win = 0.995;
        use.mean_cmp = use.mean_sel = 0.0025;
        use.spread = 0.9;
      }));
  add("a NaN", Verdict::fail, "GATE.DEAD", R"({"layers":[1]})", each(1, [](harness::GateUse& use) {
        use.spread = 0.0;
      }));
  add("one step that moves the gates", Verdict::pass, "", "{}", kLeaveAsItIs, 1);
  add(
      "one step that wants nothing of a gate",
      Verdict::fail,
      "GATE.DEAD",
      R"({"layers":[1],"op":"gate","step":1})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) {
          if (row.row.param.rfind("blocks.1.attn.gate.", 0) == 0) row.row.wanted = 0;
        }
      },
      1);
  add(
      "one step without a ledger of updates",
      Verdict::inconclusive,
      "",
      "{}",
      [](Healthy& h) { h.evidence.updates.clear(); },
      1);
  add("no rows", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.evidence.gates.clear(); });
}

inline void add_optimizer(std::vector<Planted>& list) {
  const PlantedAdder add{list, "optimizer_sound", 2, 3};
  const auto rate = [](int step, double factor) {
    return [=](Healthy& h) {
      for (auto& row : h.evidence.samples) {
        if (row.row.metric == "lr" && row.row.step >= step) {
          row.row.value = row.row.value * factor;
        }
      }
    };
  };
  add("healthy", Verdict::pass, "", "{}", kLeaveAsItIs);
  add("a learning rate of zero",
      Verdict::fail,
      "SCHEDULE.LR",
      R"({"step":2,"op":"optimizer","detail":{"steps":[2,3]}})",
      rate(2, 0.0));
  add("a learning rate that is a little off",
      Verdict::fail,
      "SCHEDULE.LR",
      R"({"step":3})",
      rate(3, 1.0001));
  add("a learning rate that is none", Verdict::fail, "SCHEDULE.LR", R"({"step":1})", rate(1, NAN));
  add("a skipped step",
      Verdict::fail,
      "OPT.SKIPPED",
      R"({"step":3,"detail":{"steps":[3]}})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) row.row.skipped = row.row.step == 3;
      });
  add("updates below the last place",
      Verdict::fail,
      "OPT.UPDATE_LOST",
      R"({"step":1,"op":"optimizer","detail":{"share_of_params":1.0,"share_of_elements":0.75,"dtype":"BF16"}})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) {
          row.row.lost = 18;
          row.row.dtype = "BF16";
        }
      });
  add("updates of one parameter",
      Verdict::fail,
      "OPT.UPDATE_LOST",
      R"({"step":2,"param":"W_Q","layers":[1]})",
      [](Healthy& h) {
        for (auto& row : h.evidence.updates) {
          if (row.row.step == 2 && row.row.param == "blocks.1.attn.W_Q.weight")
            row.row.lost = row.row.wanted / 4;
        }
      });
  add("one update of a small parameter", Verdict::pass, "", "{}", [](Healthy& h) {
    for (auto& row : h.evidence.updates) {
      if (row.row.step == 2 && row.row.param == "blocks.1.attn.W_Q.weight") row.row.lost = 1;
    }
  });
  add("no ledger", Verdict::inconclusive, "", "{}", [](Healthy& h) { h.evidence.updates.clear(); });
  add("no learning rates", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    remove_if(h.evidence.samples, [](const auto& row) { return row.row.metric == "lr"; });
  });
}

}  // namespace fixtures
