// Stages from recorded inputs: the same as the whole layer, and what is wrong stays where it is;
// the backward at a recorded forward.
#include "oracles/attention/stages.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "oracles/attention/backward.h"
#include "tests/oracles/naive.h"
#include "tests/oracles/random_layer.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

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

// A layer whose stages are all on record, but for one input that is another: which stages that input changes.
class OneInputIsAnother {
 public:
  explicit OneInputIsAnother(const Case& of) : of_(of) {}

  [[nodiscard]] std::set<Stage> of_stage(Stage wrong) const {
    return changed(of_.layer.weights, of_.layer.x, wrong);
  }
  [[nodiscard]] std::set<Stage> of_weight(const std::string& name) const {
    Weights weights = of_.layer.weights;
    weights.at(name) = shifted_by(weights.at(name), 0.1);
    return changed(weights, of_.layer.x, {});
  }
  [[nodiscard]] std::set<Stage> of_x() const {
    return changed(of_.layer.weights, shifted_by(of_.layer.x, 0.1), {});
  }

 private:
  [[nodiscard]] std::set<Stage> changed(const Weights& weights,
                                        const Tensor& x,
                                        std::optional<Stage> wrong) const {
    AttentionOptions options = of_.options;
    options.replay = of_.right.blocks;
    const Stages right(of_.layer.config, of_.layer.weights, of_.layer.x, options);
    if (wrong == Stage::blocks) forget_the_first_of_each(*options.replay);
    Stages recorded(of_.layer.config, weights, x, options);
    std::deque<Tensor> tensors;
    for (const Stage stage : all_stages()) {
      if (stage == Stage::blocks) continue;
      tensors.push_back(shifted_by(right.input(stage), stage == wrong ? 0.1 : 0));
      recorded.record(stage, tensors.back());
    }
    std::set<Stage> changed;
    for (const Stage stage : all_stages()) {
      if (largest_difference(recorded.right(stage), right.right(stage)) > 1e-9) {
        changed.insert(stage);
      }
    }
    return changed;
  }

  void forget_the_first_of_each(IntTensor& lists) const {
    const auto width = static_cast<std::ptrdiff_t>(of_.layer.config.n_sel);
    for (auto list = lists.data.begin(); list != lists.data.end(); list += width) {
      if (list[1] == -1) continue;  // the only one
      std::rotate(list, list + 1, list + width);
      list[width - 1] = -1;
    }
  }

  const Case& of_;
};

// In no layer an input changes a stage that is not made of it, and each is seen to change in some layer.
TEST(StageTable, EachStageIsMadeOfWhatChangesIt) {
  std::map<Stage, std::set<Stage>> made_of;
  std::map<Stage, std::set<std::string>> weights_of;
  std::set<Stage> of_x;
  for (const Case& s : cases()) {
    const OneInputIsAnother another(s);
    for (const Stage wrong : all_stages()) {
      for (const Stage stage : another.of_stage(wrong)) made_of[stage].insert(wrong);
    }
    for (const auto& [name, weight] : s.layer.weights) {
      for (const Stage stage : another.of_weight(name)) weights_of[stage].insert(name);
    }
    of_x.merge(another.of_x());
  }
  for (const StageRow& row : kStageTable) {
    for (const Stage input : all_stages()) {
      EXPECT_EQ(made_of[row.stage].count(input) > 0, row.made_of.holds(input))
          << row.tensor << " and " << stage_name(input);
    }
    EXPECT_EQ(of_x.count(row.stage) > 0, row.of_x) << row.tensor;
    EXPECT_EQ(weights_of[row.stage].empty(), row.weights.empty()) << row.tensor;
    for (const std::string& name : weights_of[row.stage]) {
      EXPECT_TRUE(name.starts_with(row.weights)) << name << " changes " << row.tensor;
    }
  }
}

TEST(StageTable, RowsAreInTheOrderOfComputation) {
  for (const StageRow& row : kStageTable) {
    EXPECT_EQ(&row_of(row.stage), &row);
    for (const Stage later : all_stages()) {
      EXPECT_FALSE(later >= row.stage && row.made_of.holds(later)) << row.tensor;
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
