// Defects of decoding: results, blocks and numbers that are not those of the whole sequence, and keys that were read.
#pragma once

#include "tests/checks/planted_layers.h"

namespace fixtures {

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
}

inline void add_reads(std::vector<Planted>& list) {
  const PlantedAdder add{list, "reads_count", 1, 1, "decode"};
  add("more tokens held, all of which are read",
      Verdict::fail,
      "READS.MISMATCH",
      R"({"branch":"win","layers":[1],"rows":[22],"detail":{"parts":["cache"]}})",
      [](Healthy& h) {
        LayerTensors steps = healthy_layer(0, 1);
        steps.reals["held_k_win"] = oracles::zeros({1, 2, 30, 4});
        h.write_decoded(1, healthy_layer(0, 1), steps);
        for (auto& row : h.evidence.reads) {
          if (row.row.branch == "win" && row.row.layer == 1)
            row.row.tokens = 2 * (row.row.step - 1);
        }
      });
}

}  // namespace fixtures
