// Defects of numbers: the oracle, what is not finite.
#pragma once

#include "oracles/laws/offset_laws.h"
#include "oracles/laws/stage_laws.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

// What a law gives in place of a branch's output, on the rows that `which` says; all that follows
// is made of it.
inline LayerSetting under_law(
    const std::string& law,
    oracles::Branch branch,
    const std::string& name,
    const std::function<bool(std::int64_t group, std::int64_t row)>& which,
    int of_rank,
    int layer,
    LayerSetting setting = {}) {
  LayerSetting plain = setting;
  plain.gradients = false;
  const LayerTensors healthy = made_layer(plain, of_rank, layer);
  const auto config = harness::checks::oracle_config(setting.model);
  const oracles::Weights weights = random_weights(layer, setting.model);
  const oracles::Stages stages(config, weights, healthy.reals.at("x"));
  const oracles::Tensor output = oracles::output_under(law, oracles::output_stage(branch), stages);
  setting.spoil = [=, wrong = output.data, length = setting.length](const std::string& made,
                                                                    oracles::Tensor& tensor) {
    if (made != name) return;
    const std::int64_t heads = config.heads_per_group();
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      const std::int64_t cell = static_cast<std::int64_t>(i) / config.d_v;
      const std::int64_t group = cell / length / heads % config.n_kv_groups;
      if (which(group, cell % length)) tensor.data[i] = wrong[i];
    }
  };
  return setting;
}

inline std::function<void(Healthy&)> law_planted(
    const std::string& law,
    oracles::Branch branch,
    const std::string& name,
    int layer,
    const std::function<bool(std::int64_t, std::int64_t)>& which) {
  return [=](Healthy& h) {
    for (int rank = 0; rank < 2; ++rank) {
      h.write_layer(rank,
                    1,
                    rank,
                    layer,
                    made_layer(under_law(law, branch, name, which, rank, layer), rank, layer));
    }
  };
}

// Offsets of a branch's operand that begin again, on both ranks.
inline std::function<void(Healthy&)> offsets_planted(const oracles::OffsetForm& form,
                                                     oracles::Branch branch,
                                                     int layer) {
  return [=](Healthy& h) {
    LayerSetting setting;
    setting.instead = [=](const oracles::Stages& stages,
                          oracles::Stage stage) -> std::optional<oracles::Tensor> {
      if (stage != oracles::output_stage(branch)) return std::nullopt;
      return oracles::output_under(form, stages, branch);
    };
    for (int rank = 0; rank < 2; ++rank) {
      h.write_layer(rank, 1, rank, layer, made_layer(setting, rank, layer));
    }
  };
}

inline std::function<void(Healthy&)> element_changed(const std::string& name,
                                                     int rank,
                                                     int layer,
                                                     double by) {
  return [=](Healthy& h) {
    LayerTensors tensors = healthy_layer(rank, layer);
    tensors.reals.at(name).data.at(9) += by;
    h.write_layer(rank, 1, rank, layer, tensors);
  };
}

// The choice of blocks is then close_to_oracle's to tell.
inline void without_selection_valid(Healthy& h) {
  std::erase(h.evidence.the_case.scenario.checks, "selection_valid");
}

inline void add_oracle(std::vector<Planted>& list) {
  using enum oracles::Branch;
  const std::string check = "close_to_oracle";
  const auto everywhere = [](std::int64_t, std::int64_t) { return true; };
  const auto few = [](std::int64_t group, std::int64_t row) { return group == 1 && row % 9 == 5; };
  list.push_back({check, "healthy", Verdict::pass, "", "{}", kLeaveAsItIs});
  list.push_back({check,
                  "first key only",
                  Verdict::fail,
                  "MASK.ALIGNMENT",
                  R"({"layers":[1],"branch":"sel","ranks":[0,1]})",
                  law_planted("top_left", sel, "o_sel", 1, everywhere)});
  list.push_back({check,
                  "first key only, in a few rows",
                  Verdict::fail,
                  "MASK.ALIGNMENT",
                  R"({"layers":[2],"branch":"win","rows":[5,14,23],"detail":{"groups":[1]}})",
                  law_planted("top_left", win, "o_win", 2, few)});
  list.push_back(
      {check,
       "queries read again from the beginning",
       Verdict::fail,
       "OVERFLOW.INDEX",
       R"({"layers":[1],"branch":"win","ranks":[0,1],"op":"attend_win"})",
       offsets_planted({oracles::Operand::queries, oracles::Order::tokens_first, 8}, win, 1)});
  list.push_back(
      {check,
       "empty slots read as block 0",
       Verdict::fail,
       "RANGE.INVALID",
       R"({"layers":[1],"branch":"sel","op":"attend_sel","detail":{"law":"empty_slots_block_zero"}})",
       law_planted("empty_slots_block_zero", sel, "o_sel", 1, everywhere)});
  list.push_back({check,
                  "mask inverted",
                  Verdict::fail,
                  "MASK.POLARITY",
                  R"({"layers":[0],"branch":"win"})",
                  law_planted("inverted", win, "o_win", 0, everywhere)});
  list.push_back({check,
                  "no mask",
                  Verdict::fail,
                  "MASK.ABSENT",
                  R"({"layers":[0],"branch":"cmp"})",
                  law_planted("no_mask", cmp, "o_cmp", 0, everywhere)});
  list.push_back({check,
                  "a window one longer",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[2],"branch":"win","detail":{"law":"one_longer"}})",
                  law_planted("one_longer", win, "o_win", 2, everywhere)});
  list.push_back({check,
                  "one element",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[1],"branch":"sel","ranks":[1],"op":"attend_sel"})",
                  [](Healthy& h) {
                    LayerSetting setting;
                    setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
                      if (name == "o_sel") tensor.data.at(9) += 1e-3;
                    };
                    h.write_layer(1, 1, 1, 1, made_layer(setting, 1, 1));
                  }});
  list.push_back({check,
                  "the gate",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[0],"ranks":[0],"op":"gate"})",
                  [](Healthy& h) {
                    LayerSetting setting;
                    setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
                      if (name == "gate") tensor.data.at(4) += 1e-2;
                    };
                    h.write_layer(0, 1, 0, 0, made_layer(setting, 0, 0));
                  }});
  list.push_back({check,
                  "a gradient",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[2],"ranks":[1],"param":"W_V_cmp","branch":"cmp"})",
                  element_changed("g.w.W_V_cmp.weight", 1, 2, 0.05)});
  // Whatever layer a seed would draw, and though the twin has it too.
  for (const int layer : {0, 1, 2}) {
    list.push_back({check,
                    "a gradient that the twin shares, layer " + std::to_string(layer),
                    Verdict::fail,
                    "NUMERIC.GRADIENT",
                    R"({"ranks":[1],"param":"W_V_win","layers":[)" + std::to_string(layer) + "]}",
                    [layer](Healthy& h) {
                      LayerTensors tensors = healthy_layer(1, layer);
                      tensors.reals.at("g.w.W_V_win.weight").data.at(9) += 0.05;
                      h.write_layer(1, 1, 1, layer, tensors);
                      h.write_layer(kTwin, 1, 1, layer, tensors);
                    }});
  }
  list.push_back({check,
                  "a gradient that is not there",
                  Verdict::fail,
                  "NUMERIC.GRADIENT",
                  R"({"layers":[1],"param":"W_K_cmp"})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.reals.erase("g.w.W_K_cmp.weight");
                    h.write_layer(0, 1, 0, 1, tensors);
                  }});
  list.push_back({check,
                  "a NaN in the output",
                  Verdict::fail,
                  "NUMERIC.FORWARD",
                  R"({"layers":[1],"ranks":[0]})",
                  element_changed("y", 0, 1, std::nan(""))});
  list.push_back({check,
                  "other blocks chosen",
                  Verdict::fail,
                  "SELECTION.WRONG",
                  R"({"layers":[0],"ranks":[0],"op":"select","rows":[31]})",
                  [](Healthy& h) {
                    without_selection_valid(h);
                    LayerSetting setting;
                    setting.spoil_blocks = [](oracles::IntTensor& blocks) {
                      // The last row takes a block that its scores reject.
                      std::int64_t* last =
                          blocks.data.data() + (2 * kLength - 1) * toy_model().n_sel;
                      last[1] = last[1] == 2 ? 3 : 2;
                    };
                    h.write_layer(0, 1, 0, 0, made_layer(setting, 0, 0));
                  }});
  list.push_back({check,
                  "no list of blocks",
                  Verdict::fail,
                  "RANGE.INVALID",
                  R"({"layers":[1],"rows":[3]})",
                  [](Healthy& h) {
                    without_selection_valid(h);
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.blocks.data.at(static_cast<std::size_t>(3 * toy_model().n_sel)) = 77;
                    h.write_layer(0, 1, 0, 1, tensors);
                  }});
  list.push_back({check, "nothing recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    h.evidence.artefacts.clear();
                  }});
  list.push_back({check, "pruned", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (const auto& row : h.evidence.artefacts) {
                      if (row.row.name == "attention_layer")
                        std::filesystem::remove(h.folder() + "/" + row.row.path);
                    }
                  }});
  list.push_back({check, "a tensor is missing", Verdict::inconclusive, "", "{}", [](Healthy& h) {
                    for (int layer = 0; layer < 3; ++layer) {
                      LayerTensors tensors = healthy_layer(0, layer);
                      tensors.reals.erase("dy");
                      h.write_layer(0, 1, 0, layer, tensors);
                    }
                  }});
}

inline void add_finite(std::vector<Planted>& list) {
  const std::string check = "finite";
  list.push_back({check,
                  "a branch output before the loss",
                  Verdict::fail,
                  "NAN.ORIGIN",
                  R"({"ranks":[0],"layers":[1],"branch":"win","op":"attend_win"})",
                  [](Healthy& h) {
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.reals.at("o_win").data.at(20) = std::nan("");
                    tensors.reals.at("y").data.at(20) = std::nan("");
                    h.write_layer(0, 1, 0, 1, tensors);
                    for (auto& row : h.evidence.samples) row.row.value = std::nan("");
                    each_gradient(h.evidence, -1, "", [](Gradient& row) { row.state = "nan"; });
                  }});
  list.push_back({check,
                  "poisoned memory in a layer that runs alone",
                  Verdict::fail,
                  "NAN.UNINIT",
                  R"({"layers":[1],"branch":"win","op":"attend_win"})",
                  [](Healthy& h) {
                    h.evidence.the_case.scenario.attention.poison = true;
                    LayerTensors tensors = healthy_layer(0, 1);
                    tensors.reals.at("o_win").data.at(20) = std::nan("");
                    h.write_layer(0, 1, 0, 1, tensors);
                  },
                  1,
                  1,
                  "attention"});
}

}  // namespace fixtures
