// Stages from recorded inputs: the same as the whole layer, and what is wrong stays where it is;
// the backward at a recorded forward.
#include "oracles/attention/stages.h"

#include <cmath>

#include <gtest/gtest.h>

#include "oracles/attention/backward.h"
#include "tests/oracles/naive.h"
#include "tests/oracles/random_layer.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

// The stages that are made of this one, directly.
std::vector<Stage> consumers(Stage stage) {
  using enum Stage;
  switch (stage) {
    case q: return {p_grp, o_cmp, o_sel, o_win, gate};
    case k_raw: return {k_cmp};
    case v_raw: return {v_cmp};
    case k_cmp: return {p_grp, o_cmp};
    case v_cmp: return {o_cmp};
    case k_sel:
    case v_sel: return {o_sel};
    case k_win:
    case v_win: return {o_win};
    case p_grp: return {blocks};
    case blocks: return {o_sel};
    case y: return {};
    default: return {y};
  }
}

Tensor shifted_by(Tensor tensor, double change) {
  for (double& value : tensor.data) {
    value += change * std::sin(static_cast<double>(&value - tensor.data.data()));
  }
  return tensor;
}

TEST(Stages, RecordedInputsGiveTheSame) {
  for (const Case& s : cases()) {
    Stages recorded(s.layer.config, s.layer.weights, s.layer.x, s.options);
    for (const Stage stage : all_stages()) {
      if (stage != Stage::blocks) {
        recorded.record(stage, s.stages.input(stage));
      }
    }
    for (const Stage stage : all_stages()) {
      EXPECT_EQ(recorded.right(stage).data, s.stages.right(stage).data) << stage_name(stage);
    }
  }
}

// What was recorded of one stage changes the stages that are made of it, and no other.
TEST(Stages, AWrongStageStaysWhereItIs) {
  const Case& s = cases()[0];
  for (const Stage wrong : all_stages()) {
    if (wrong == Stage::blocks) {
      continue;
    }
    Stages recorded(s.layer.config, s.layer.weights, s.layer.x, s.options);
    std::deque<Tensor> tensors;
    for (const Stage stage : all_stages()) {
      if (stage != Stage::blocks) {
        tensors.push_back(shifted_by(s.stages.input(stage), stage == wrong ? 0.1 : 0));
        recorded.record(stage, tensors.back());
      }
    }
    const std::vector<Stage> made_of_it = consumers(wrong);
    for (const Stage stage : all_stages()) {
      const bool is_made_of_it =
          std::find(made_of_it.begin(), made_of_it.end(), stage) != made_of_it.end();
      const double change = largest_difference(recorded.right(stage), s.stages.right(stage));
      // The choice changes only where a score passes another one.
      EXPECT_TRUE(stage == Stage::blocks || (change > 1e-6) == is_made_of_it ||
                  (wrong == Stage::p_grp && stage == Stage::o_sel))
          << stage_name(wrong) << " in " << stage_name(stage) << ": " << change;
    }
  }
}

TEST(Stages, ANaNStaysInWhatIsMadeOfIt) {
  const Case& s = cases()[0];
  Tensor q = s.stages.input(Stage::q);
  q.data[0] = std::nan("");
  Stages recorded(s.layer.config, s.layer.weights, s.layer.x, s.options);
  recorded.record(Stage::q, q);
  EXPECT_TRUE(std::isnan(recorded.right(Stage::o_win).data[0]));
  EXPECT_TRUE(std::isfinite(recorded.right(Stage::o_win).data.back()));
  EXPECT_EQ(recorded.right(Stage::k_cmp).data, s.stages.right(Stage::k_cmp).data);
}

TEST(Stages, RefuseOtherShapes) {
  const Case& s = cases()[0];
  Stages recorded(s.layer.config, s.layer.weights, s.layer.x, s.options);
  Tensor v = s.stages.input(Stage::v_win);
  v.data.pop_back();
  EXPECT_THROW(recorded.record(Stage::v_win, v), std::invalid_argument);
  EXPECT_THROW(recorded.record(Stage::k_win, s.stages.input(Stage::y)), std::invalid_argument);
  EXPECT_THROW(recorded.record(Stage::blocks, s.stages.input(Stage::blocks)),
               std::invalid_argument);
}

TEST(Stages, SomeRowsAreThoseOfTheWhole) {
  for (const Case& s : cases()) {
    const std::vector<std::size_t> places{1, 3, 4};
    Stages recorded(s.layer.config, s.layer.weights, s.layer.x, s.options);
    const Tensor o_sel = shifted_by(s.stages.input(Stage::o_sel), 0.1);
    recorded.record(Stage::o_sel, o_sel);
    (void)recorded.input(Stage::k_win);
    const auto some = recorded.at_rows(places);
    for (const Stage stage : all_stages()) {
      const Tensor whole = recorded.right(stage);
      const Tensor wanted = is_of_queries(stage) ? rows_at(whole, places) : whole;
      EXPECT_EQ(some->right(stage).data, wanted.data) << stage_name(stage);
    }
  }
}

// ---- backward ---------------------------------------------------------------------------------

// A layer in which the output of one stage is twice what it should be, and the same layer as a
// right one with other weights. Its true gradients are those of the other weights, times two for
// the weight that was doubled.
struct Doubled {
  Stage stage;
  std::string weight;
};

TEST(Backward, TellsWhichGradientsGoThroughAWrongStage) {
  const RandomLayer layer = case_layer(11, [](auto&) {});
  for (const Doubled& wrong : {Doubled{Stage::q, "W_Q.weight"},
                               Doubled{Stage::k_raw, "W_K_cmp.weight"},
                               Doubled{Stage::k_cmp, "W_K_cmp.weight"},
                               Doubled{Stage::v_raw, "W_V_cmp.weight"},
                               Doubled{Stage::v_cmp, "W_V_cmp.weight"},
                               Doubled{Stage::o_cmp, "W_V_cmp.weight"},
                               Doubled{Stage::k_sel, "W_K_sel.weight"},
                               Doubled{Stage::v_sel, "W_V_sel.weight"},
                               Doubled{Stage::o_sel, "W_V_sel.weight"},
                               Doubled{Stage::k_win, "W_K_win.weight"},
                               Doubled{Stage::v_win, "W_V_win.weight"},
                               Doubled{Stage::o_win, "W_V_win.weight"},
                               Doubled{Stage::y, "out.weight"}}) {
    Weights weights = layer.weights;
    for (double& value : weights.at(wrong.weight).data) {
      value *= 2;
    }
    AttentionPass truth = attention_with_gradients(layer.config, weights, layer.x, layer.dy);
    for (double& value : truth.gradients.weights.at(wrong.weight).data) {
      value *= 2;
    }
    Stages forward(layer.config, layer.weights, layer.x, {.replay = truth.result.blocks});
    Tensor doubled = Stages(layer.config, layer.weights, layer.x, {.replay = truth.result.blocks})
                         .right(wrong.stage);
    for (double& value : doubled.data) {
      value *= 2;
    }
    forward.record(wrong.stage, doubled);
    ASSERT_LT(largest_difference(forward.input(Stage::y), truth.result.y), 1e-12);
    const AttentionGradients found = Backward(forward, layer.dy).gradients();
    const auto expect = [&](const std::string& of, const Tensor& own, const Tensor& right) {
      const std::vector<Stage> way = stages_on_the_way(of, layer.config);
      const bool goes_through = std::find(way.begin(), way.end(), wrong.stage) != way.end();
      EXPECT_EQ(largest_difference(own, right) > 1e-9, goes_through)
          << of << " where " << stage_name(wrong.stage) << " is wrong";
    };
    for (const auto& [name, gradient] : truth.gradients.weights) {
      expect(name, found.weights.at(name), gradient);
    }
    expect("x", found.x, truth.gradients.x);
  }
}

// The gate is a stage on the way of its own weights, and of the queries' where it is made of them.
TEST(Backward, TheGateIsOnTheWayOfWhatItIsMadeOf) {
  AttentionConfig config;
  const auto has_gate = [&](const char* of) {
    const std::vector<Stage> way = stages_on_the_way(of, config);
    return std::find(way.begin(), way.end(), Stage::gate) != way.end();
  };
  EXPECT_TRUE(has_gate("gate.fc1.bias") && has_gate("W_Q.weight") && has_gate("x"));
  EXPECT_FALSE(has_gate("out.weight") || has_gate("W_V_sel.weight"));
  config.gate = Gate::head_sigmoid;
  EXPECT_TRUE(has_gate("gate.proj.weight") && has_gate("x"));
  EXPECT_FALSE(has_gate("W_Q.weight"));
}

TEST(Backward, RefusesAnotherOutputsGradient) {
  const Case& s = cases()[0];
  Tensor dy = s.layer.dy;
  dy.data[7] = std::nan("");
  EXPECT_THROW(Backward(s.stages, dy), std::invalid_argument);
  EXPECT_THROW(Backward(s.stages, s.stages.input(Stage::q)), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
