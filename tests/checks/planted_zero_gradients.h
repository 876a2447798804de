// Gradients of zero that are right, because all that scored positions see is alike, beside others that are not.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "harness/checks/data_of.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

inline void add_zero_gradients(std::vector<Planted>& list) {
  const std::string check = "gradients_arrived";
  // Sequences of four tokens, of which a mask scores one to three. Rows of those with two are zero whose first two tokens are alike
  // (or, without `alike`, are not), and whose third one is another.
  const auto of_scored_tokens = [](Healthy& h, bool alike, const char* param) {
    harness::Scenario& scenario = h.evidence.the_case.scenario;
    scenario.training.seq_len = 4;
    scenario.training.batch_size = 1;
    scenario.model.vocab_size = 3;
    scenario.training.data.source = nsa::DataConfig::Source::uniform;
    scenario.training.data.loss_mask = nsa::DataConfig::LossMask::ragged;
    const oracles::DataConfig data = harness::checks::data_of(scenario);
    int changed = 0;
    for (auto& row : h.evidence.gradients) {
      if (row.process < 0 || row.row.param.find(param) == std::string::npos) continue;
      const oracles::BatchPlace place{row.row.step, 0, row.process};
      const auto tokens = oracles::batch_tokens(data, place).data;
      if (oracles::scored_positions(data, place).front() != 2 || tokens[2] == tokens[1]) continue;
      if ((tokens[0] == tokens[1]) != alike) continue;
      row.row.state = "zero";
      ++changed;
    }
    if (changed == 0) throw std::logic_error("no row to spoil");
  };
  list.push_back(
      {check,
       "exactly zero, where what is scored is one token repeated and what follows is not",
       Verdict::pass,
       "",
       "{}",
       [=](Healthy& h) { of_scored_tokens(h, true, "blocks.0.attn.W_K_sel"); },
       4,
       6});
  list.push_back({check,
                  "exactly zero, though tokens that are scored differ",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[0],"param":"W_K_sel","branch":"sel"})",
                  [=](Healthy& h) { of_scored_tokens(h, false, "blocks.0.attn.W_K_sel"); },
                  4,
                  6});
  list.push_back({check,
                  "a value's gradient exactly zero, though what is scored is one token repeated",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[0],"param":"W_V_sel","branch":"sel"})",
                  [=](Healthy& h) { of_scored_tokens(h, true, "blocks.0.attn.W_V_sel"); },
                  4,
                  6});
  // Two tokens in turn: windows that begin two places apart hold the same.
  const auto of_two_tokens = [](Healthy& h, std::int64_t stride, const char* param) {
    harness::Scenario& scenario = h.evidence.the_case.scenario;
    scenario.model.d = stride;
    nsa::DataConfig& data = scenario.training.data;
    data.source = nsa::DataConfig::Source::long_range;
    data.distance = 2;
    data.sharpness = 1.0;
    each_gradient(h.evidence, -1, param, [](Gradient& row) { row.state = "zero"; });
  };
  list.push_back({check,
                  "exactly zero, where all windows of compression hold the same tokens",
                  Verdict::pass,
                  "",
                  "{}",
                  [=](Healthy& h) { of_two_tokens(h, 2, "blocks.0.attn.W_K_cmp"); }});
  list.push_back({check,
                  "exactly zero, though windows of compression differ",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[0],"param":"W_K_cmp","branch":"cmp"})",
                  [=](Healthy& h) { of_two_tokens(h, 1, "blocks.0.attn.W_K_cmp"); }});
  list.push_back({check,
                  "exactly zero in another branch, though windows of compression are alike",
                  Verdict::fail,
                  "GRAD.ZERO",
                  R"({"layers":[0],"param":"W_K_sel","branch":"sel"})",
                  [=](Healthy& h) { of_two_tokens(h, 2, "blocks.0.attn.W_K_sel"); }});
}

}  // namespace fixtures
