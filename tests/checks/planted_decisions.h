// Replicated inputs: what decisions_agree must say of ranks that choose other blocks.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

// Of two steps, every rank and the twin in every layer.
inline void replicate(Healthy& h) {
  h.evidence.the_case.scenario.training.data.replicated = true;
  for (int step = 1; step <= 2; ++step) {
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      const std::string name = std::to_string(step) + "." + std::to_string(layer);
      for (int rank = 0; rank < h.evidence.ranks(); ++rank) {
        const harness::BlockChoice row{step, layer, rank, "scores " + name, "blocks " + name};
        put(h.evidence.block_choices, rank, row);
        put(h.evidence.block_choices, harness::kTwin, row);
      }
    }
  }
}

inline void add_decisions(std::vector<Planted>& list) {
  const PlantedAdder add{list, "decisions_agree", 2, 2};
  const auto change = [](Healthy& h, int process, int layer, auto of_row) {
    for (auto& row : h.evidence.block_choices) {
      if (row.process == process && row.row.layer == layer) of_row(row.row);
    }
  };
  const auto rechoose = [](harness::BlockChoice& row) { row.blocks = "others"; };
  const auto rescore = [](harness::BlockChoice& row) { row.scores = row.blocks = "others"; };
  add("replicated inputs", Verdict::pass, "", "{}", replicate);
  add("one rank of two chooses otherwise",
      Verdict::fail,
      "DESYNC.SELECTION",
      R"({"layers":[1],"op":"select","ranks":[1],"step":1,"detail":{"steps":2}})",
      [=](Healthy& h) {
        replicate(h);
        change(h, 1, 1, rechoose);
      });
  add("without the twin the odd one of two is not known",
      Verdict::fail,
      "DESYNC.SELECTION",
      R"({"layers":[1],"step":1,"ranks":[]})",
      [=](Healthy& h) {
        replicate(h);
        remove_if(h.evidence.block_choices,
                  [](const auto& row) { return row.process == harness::kTwin; });
        change(h, 1, 1, rechoose);
      });
  // What a layer before did to the scores is not this layer's choice.
  add("a layer with other scores is not compared",
      Verdict::fail,
      "DESYNC.SELECTION",
      R"({"layers":[0],"ranks":[0]})",
      [=](Healthy& h) {
        replicate(h);
        change(h, 0, 0, rechoose);
        change(h, 0, 1, rescore);
      });
  add("other scores everywhere", Verdict::inconclusive, "", "{}", [=](Healthy& h) {
    replicate(h);
    for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
      change(h, 0, layer, rescore);
    }
  });
  add("ranks with inputs of their own", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    replicate(h);
    h.evidence.the_case.scenario.training.data.replicated = false;
  });
  add("nothing recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    h.evidence.the_case.scenario.training.data.replicated = true;
  });
  add("one rank recorded nothing", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    replicate(h);
    remove_if(h.evidence.block_choices, [](const auto& row) { return row.process == 1; });
  });
}

}  // namespace fixtures
