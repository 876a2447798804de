// Certificates of numbers that are not finite, and the recorded tensors that show them.
#pragma once

#include "tests/checks/planted_layers.h"

namespace fixtures {

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
}

}  // namespace fixtures
