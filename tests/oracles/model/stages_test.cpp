// The model piece by piece: what each stage gives from what the whole model's pass has before it is
// what the pass has behind it, forward and backward. Two ways to the same numbers, one of them held to
// the golden files.
#include <cmath>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/linear.h"
#include "oracles/model/head_stage.h"
#include "oracles/model/lm.h"
#include "oracles/model/mlp_stage.h"
#include "oracles/model/norm_stage.h"
#include "oracles/model/stream_stage.h"
#include "oracles/products.h"
#include "tests/oracles/golden.h"
#include "tests/oracles/model/random_lm.h"

namespace oracles::testing {
namespace {

const Rounding kExact = Rounding::of(Number::f64);

// [B,S,.] as rows.
Tensor rows(const Tensor& tensor) {
  const std::int64_t width = tensor.shape.back();
  return {{static_cast<std::int64_t>(tensor.data.size()) / width, width}, tensor.data};
}

void expect_given(const Expected& expected, const Tensor& found, const std::string& what) {
  const Misfit misfit = misfit_of(found.data, expected);
  EXPECT_TRUE(misfit.fits()) << what << ": " << misfit.worst << " times the bound";
}

class Stages : public ::testing::TestWithParam<int> {
 protected:
  Stages() : lm_(static_cast<std::uint64_t>(GetParam())) {
    LmOptions options;
    options.keep_stages = true;
    pass_ = language_model_with_gradients(lm_.config, lm_.parameters, lm_.tokens, options);
  }

  [[nodiscard]] const Tensor& parameter(std::int64_t layer, const std::string& name) const {
    return lm_.parameters.at("blocks." + std::to_string(layer) + "." + name);
  }
  [[nodiscard]] MlpInputs mlp(std::int64_t layer) const {
    MlpInputs in;
    in.x = rows(pass_.result.stages.blocks[layer].norm2);
    in.weights = {"",
                  matrix_of(parameter(layer, "mlp.fc1.weight")),
                  matrix_of(parameter(layer, "mlp.fc2.weight"))};
    in.rounding = kExact;
    return in;
  }
  [[nodiscard]] ResidualInputs residual(const Tensor& stream, const Tensor& branch) const {
    return {rows(stream), rows(branch), {}, {}, kExact};
  }
  // What goes past a norm and what comes through it.
  [[nodiscard]] Expected joined(const Tensor& stream, const Expected& branch) const {
    return expected_residual({rows(stream), branch.value, branch.bound, {}, kExact});
  }

  RandomLm lm_;
  LmPass pass_;
};

TEST_P(Stages, ForwardOfEveryBlock) {
  const LmResult& r = pass_.result;
  for (std::int64_t layer = 0; layer < lm_.config.n_layers; ++layer) {
    const BlockStages& s = r.stages.blocks[layer];
    expect_given(expected_norm(rows(r.inputs[layer]), parameter(layer, "norm1.weight"), kExact),
                 s.norm1,
                 "norm1");
    expect_given(expected_residual(residual(r.inputs[layer], s.attention)),
                 r.mlp_inputs[layer],
                 "residual 1");
    expect_given(expected_norm(rows(r.mlp_inputs[layer]), parameter(layer, "norm2.weight"), kExact),
                 s.norm2,
                 "norm2");
    expect_given(expected_mlp(mlp(layer)), s.mlp, "mlp");
    EXPECT_TRUE(judge_product(linear_product(matrix_of(s.norm2),
                                             matrix_of(parameter(layer, "mlp.fc1.weight")),
                                             matrix_of(s.hidden),
                                             kExact),
                              1)
                    .fits());
    expect_given(
        expected_residual(residual(r.mlp_inputs[layer], s.mlp)), r.inputs[layer + 1], "residual 2");
  }
}

TEST_P(Stages, BackwardOfEveryBlock) {
  const LmResult& r = pass_.result;
  const LmStageGradients& d = pass_.stage_gradients;
  for (std::int64_t layer = 0; layer < lm_.config.n_layers; ++layer) {
    const BlockStages& s = d.stages.blocks[layer];
    const auto through_norm = [&](const Tensor& x, const std::string& norm, const Tensor& dy) {
      return expected_norm_gradient(rows(x), parameter(layer, norm), rows(dy), kExact);
    };
    EXPECT_EQ(s.mlp.data, d.inputs[layer + 1].data);
    expect_given(expected_mlp_gradient(mlp(layer), rows(s.mlp)), s.norm2, "mlp");
    expect_given(
        joined(d.inputs[layer + 1], through_norm(r.mlp_inputs[layer], "norm2.weight", s.norm2)),
        d.mlp_inputs[layer],
        "residual 2");
    EXPECT_EQ(s.attention.data, d.mlp_inputs[layer].data);
    expect_given(
        joined(d.mlp_inputs[layer], through_norm(r.inputs[layer], "norm1.weight", s.norm1)),
        d.inputs[layer],
        "residual 1");
  }
}

TEST_P(Stages, WeightGradients) {
  const LmStageGradients& d = pass_.stage_gradients;
  for (std::int64_t layer = 0; layer < lm_.config.n_layers; ++layer) {
    const std::string prefix = "blocks." + std::to_string(layer) + ".";
    const BlockStages& value = pass_.result.stages.blocks[layer];
    const BlockStages& gradient = d.stages.blocks[layer];
    const auto fits = [](const Tensor& dy, const Tensor& x, const Tensor& dw) {
      return judge_product(
                 weight_gradient_product(matrix_of(dy), matrix_of(x), matrix_of(dw), kExact), 2)
          .fits();
    };
    EXPECT_TRUE(fits(gradient.hidden, value.norm2, pass_.gradients.at(prefix + "mlp.fc1.weight")));
    const Tensor activated = expected_silu(value.hidden, kExact).value;
    EXPECT_TRUE(fits(gradient.mlp, activated, pass_.gradients.at(prefix + "mlp.fc2.weight")));
    for (const auto& [norm, x, dy] :
         {std::tuple("norm1.weight", &pass_.result.inputs[layer], &gradient.norm1),
          std::tuple("norm2.weight", &pass_.result.mlp_inputs[layer], &gradient.norm2)}) {
      const Expected gain =
          expected_gain_gradient(matrix_of(*x), parameter(layer, norm), matrix_of(*dy), kExact);
      expect_given(gain, pass_.gradients.at(prefix + norm), norm);
    }
  }
}

TEST_P(Stages, EmbeddingAndHead) {
  const LmResult& r = pass_.result;
  const LmStageGradients& d = pass_.stage_gradients;
  EmbeddingInputs embed;
  embed.tokens = lm_.tokens;
  embed.rows.resize(lm_.tokens.data.size());
  std::iota(embed.rows.begin(), embed.rows.end(), 0);
  embed.table = matrix_of(lm_.parameters.at("embed.weight"));
  embed.rounding = kExact;
  expect_given(expected_embedding(embed), r.inputs.front(), "embed");
  expect_given(expected_embedding_gradient(
                   {lm_.tokens, matrix_of(d.inputs.front()), lm_.config.vocab_size, kExact, 1}),
               pass_.gradients.at("embed.weight"),
               "gradient of embed");

  expect_given(expected_norm(rows(r.inputs.back()), lm_.parameters.at("norm_f.weight"), kExact),
               r.stages.norm_f,
               "norm_f");
  HeadInputs head;
  head.x = rows(r.stages.norm_f);
  head.head = matrix_of(lm_.parameters.at("lm_head.weight"));
  head.rounding = kExact;
  expect_given(expected_logits(head), r.logits, "logits");

  const LossInputs loss{matrix_of(r.logits), lm_.tokens, embed.rows, 1, 0, kExact};
  EXPECT_EQ(name_loss(r.loss, rows(d.logits), loss).text(), "right");
}

INSTANTIATE_TEST_SUITE_P(Random, Stages, ::testing::Range(20, 32));

TEST(StagesKept, AreNotKeptUnasked) {
  const RandomLm lm(1);
  const LmPass pass = language_model_with_gradients(lm.config, lm.parameters, lm.tokens);
  EXPECT_TRUE(pass.result.stages.blocks.empty());
  EXPECT_TRUE(pass.stage_gradients.inputs.empty());
}

}  // namespace
}  // namespace oracles::testing
