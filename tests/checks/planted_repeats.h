// Layers that were called again: what repeats_equal must say of calls and placements that differ.
#pragma once

#include "tests/checks/planted_case.h"

namespace fixtures {

inline constexpr const char* kSecondCall = "attention_layer_2";
inline constexpr const char* kThirdCall = "attention_layer_3";
inline constexpr const char* kAloneAgain = "attention_layer_alone";
inline constexpr const char* kAmongFour = "attention_layer_of_four";

// All layers give the same in every call and placement.
inline void call_again(Healthy& h) {
  for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
    for (const char* name : {kSecondCall, kThirdCall, kAloneAgain, kAmongFour}) {
      h.write_layer(0, 1, 0, layer, healthy_layer(0, layer), name);
    }
  }
}

inline constexpr const char* kInSeries = "attention_layer_in_series";
inline constexpr const char* kInSeriesAgain = "attention_layer_in_series_2";
inline constexpr const char* kLate = "attention_layer_late";
inline constexpr const char* kOthersLate = "attention_layer_others_late";

// As on a card, where no stream races.
inline void call_late(Healthy& h) {
  call_again(h);
  h.evidence.the_case.scenario.parallel.device = nsa::Device::cuda;
  for (int layer = 0; layer < static_cast<int>(toy_model().n_layers); ++layer) {
    for (const char* name : {kInSeries, kInSeriesAgain, kLate, kOthersLate}) {
      h.write_layer(0, 1, 0, layer, healthy_layer(0, layer), name);
    }
  }
}

inline void add_repeats(std::vector<Planted>& list) {
  const PlantedAdder add{list, "repeats_equal", 1, 1, "attention"};
  // Layer 1 of one call or placement is another one.
  const auto other = [](Healthy& h, const char* name, auto change) {
    LayerTensors tensors = healthy_layer(0, 1);
    change(tensors);
    h.write_layer(0, 1, 0, 1, tensors, name);
  };
  const auto moved = [](const std::string& tensor, double by) {
    return [=](LayerTensors& tensors) { tensors.reals.at(tensor).data.at(9 * 4) += by; };
  };
  const auto rechosen = [](LayerTensors& tensors) { tensors.blocks.data.at(31 * 4 + 1) += 1; };
  add("called again", Verdict::pass, "", "{}", call_again);
  add("the first call is the odd one",
      Verdict::fail,
      "NUMERIC.FORWARD",
      R"({"layers":[1],"op":"attend_sel","branch":"sel","rows":[9],"detail":{"call":1}})",
      [=](Healthy& h) {
        call_again(h);
        for (const char* name : {kSecondCall, kThirdCall}) other(h, name, moved("o_sel", 1e-7));
      });
  add("no call is like another one",
      Verdict::fail,
      "NUMERIC.FORWARD",
      R"({"layers":[1],"op":"attend_win"})",
      [=](Healthy& h) {
        call_again(h);
        other(h, kSecondCall, moved("o_win", 1e-3));
        other(h, kThirdCall, moved("o_win", 2e-3));
      });
  add("another choice in the second call",
      Verdict::fail,
      "DETERMINISM.SELECTION",
      R"({"layers":[1],"op":"select","rows":[31],"detail":{"call":2}})",
      [=](Healthy& h) {
        call_again(h);
        other(h, kSecondCall, rechosen);
      });
  add("other numbers among four",
      Verdict::fail,
      "DETERMINISM.BATCH",
      R"({"layers":[1],"op":"attend_win","rows":[9],"detail":{"placed":["last of four"]}})",
      [=](Healthy& h) {
        call_again(h);
        other(h, kAmongFour, moved("o_win", 0.1));
      });
  add("another choice of the same scores",
      Verdict::fail,
      "DETERMINISM.BATCH",
      R"({"layers":[1],"op":"select","detail":{"placed":["alone"]}})",
      [=](Healthy& h) {
        call_again(h);
        other(h, kAloneAgain, rechosen);
      });
  add("rounded otherwise alone", Verdict::pass, "", "{}", [=](Healthy& h) {
    call_again(h);
    other(h, kAloneAgain, moved("o_win", 1e-7));
  });
  add("another choice of scores that are rounded otherwise",
      Verdict::pass,
      "",
      "{}",
      [=](Healthy& h) {
        call_again(h);
        other(h, kAloneAgain, [&](LayerTensors& tensors) {
          rechosen(tensors);
          double& score = tensors.reals.at("p_grp").data.at(31 * 8);
          score = std::nextafter(static_cast<float>(score), 2.0F);
        });
      });
  add("called once", Verdict::inconclusive, "", "{}", kLeaveAsItIs);
  add("no stream races", Verdict::pass, "", "{}", call_late);
  add("another stream is read too early",
      Verdict::fail,
      "RACE.STREAM",
      R"({"layers":[1],"op":"attend_win","branch":"win","phase":"forward","rows":[9],)"
      R"("detail":{"late":["the other streams were late"]}})",
      [=](Healthy& h) {
        call_late(h);
        other(h, kOthersLate, moved("o_win", 1e-3));
      });
  add("a race that shows as it is",
      Verdict::fail,
      "RACE.STREAM",
      R"({"layers":[1],"op":"select","detail":{"late":["no stream was late"]}})",
      [=](Healthy& h) {
        call_late(h);
        for (const char* name : {kInSeries, kInSeriesAgain, kLate, kOthersLate}) {
          other(h, name, rechosen);
        }
      });
  add("the first call is the odd one, and no stream races",
      Verdict::fail,
      "NUMERIC.FORWARD",
      R"({"layers":[1],"op":"attend_sel","detail":{"call":1}})",
      [=](Healthy& h) {
        call_late(h);
        LayerTensors tensors = healthy_layer(0, 1);
        moved("o_sel", 1e-3)(tensors);
        h.write_layer(0, 1, 0, 1, tensors);
      });
  add("a gradient that races",
      Verdict::fail,
      "RACE.STREAM",
      R"({"layers":[1],"phase":"backward","detail":{"tensors":["dx"]}})",
      [=](Healthy& h) {
        call_late(h);
        other(h, kLate, moved("dx", 1e-7));
      });
  add("other numbers also one after the other",
      Verdict::fail,
      "NUMERIC.FORWARD",
      R"({"layers":[1],"op":"attend_win","detail":{"call":2}})",
      [=](Healthy& h) {
        call_late(h);
        for (const char* name : {kSecondCall, kInSeriesAgain, kLate}) {
          other(h, name, moved("o_win", 1e-3));
        }
      });
  add("late streams were not recorded", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    call_again(h);
    h.evidence.the_case.scenario.parallel.device = nsa::Device::cuda;
  });
}

}  // namespace fixtures
