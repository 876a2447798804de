// The model between its attention layers under autocast, with residual dropout: the masks are part of the stream.
#include <algorithm>
#include <functional>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "harness/checks/step/step_model.h"
#include "oracles/model/linear_rows.h"

namespace {

using harness::checks::judge_backward;
using harness::checks::judge_forward;
using harness::checks::ModelRows;
using harness::checks::Stream;
using oracles::Tensor;

constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kHidden = 32;
constexpr std::int64_t kWords = 24;
constexpr std::int64_t kLength = 20;

class DrawnParts {
 public:
  Tensor tensor(const std::vector<std::int64_t>& shape) {
    Tensor tensor = oracles::zeros(shape);
    for (double& x : tensor.data) x = normal_(random_);
    return tensor;
  }
  oracles::Matrix matrix(std::int64_t rows, std::int64_t columns) {
    kept_.push_back(std::make_unique<Tensor>(tensor({rows, columns})));
    return oracles::matrix_of(*kept_.back());
  }

 private:
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_{0.0, 0.3};
  std::vector<std::unique_ptr<Tensor>> kept_;
};

Tensor sum_of_both(Tensor a, const Tensor& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

// A step of two layers as the oracle makes it; `wrong` spoils the masks that it uses, the judge draws its own.
class RecordedRows {
 public:
  explicit RecordedRows(const std::function<void(ModelRows&)>& wrong) {
    draw();
    ModelRows used = model;
    wrong(used);
    used.draw_factors();
    forward(used);
    backward(used);
    model.draw_factors();
  }

  ModelRows model;

 private:
  void draw() {
    model.rows = {0, 3, 4, 9, 17, 19};
    model.tokens.shape = {1, kLength};
    for (std::int64_t i = 0; i < kLength; ++i) model.tokens.data.push_back(i % kWords);
    model.dropout = 0.5;
    model.data.seq_len = kLength;
    model.data.batch_size = 1;
    model.data.world = 2;
    model.data.seed = 5;
    model.place = {1, 0, 0};
    model.large["embed.weight"] = drawn_.matrix(kWords, kWidth);
    model.large["lm_head.weight"] = drawn_.matrix(kWords, kWidth);
    model.small["norm_f.weight"] = drawn_.tensor({kWidth});
    for (const char* block : {"blocks.0.", "blocks.1."}) {
      const std::string name = block;
      model.large[name + "mlp.fc1.weight"] = drawn_.matrix(kHidden, kWidth);
      model.large[name + "mlp.fc2.weight"] = drawn_.matrix(kWidth, kHidden);
      model.small[name + "norm1.weight"] = drawn_.tensor({kWidth});
      model.small[name + "norm2.weight"] = drawn_.tensor({kWidth});
      ModelRows::Border border;
      border.y = drawn_.tensor({count(), kWidth});
      border.dx = drawn_.tensor({count(), kWidth});
      model.layers.push_back(border);
    }
    model.dlogits = drawn_.tensor({count(), kWords});
  }

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(model.rows.size()); }
  [[nodiscard]] Tensor norm(const Tensor& x, const std::string& gain) const {
    return oracles::expected_norm(x, model.gain(gain), model.rounding).value;
  }
  [[nodiscard]] Tensor norm_gradient(const Tensor& x,
                                     const std::string& gain,
                                     const Tensor& dy) const {
    return oracles::expected_norm_gradient(x, model.gain(gain), dy, model.rounding).value;
  }
  [[nodiscard]] oracles::MlpInputs mlp(std::size_t layer, const Tensor& x) const {
    oracles::MlpInputs inputs;
    inputs.x = x;
    inputs.weights = model.mlp(layer);
    inputs.rounding = model.rounding;
    return inputs;
  }
  static std::string block(std::size_t layer) { return "blocks." + std::to_string(layer) + "."; }

  void forward(const ModelRows& used) {
    Tensor stream = oracles::rows_of(model.large.at("embed.weight"), model.rows);
    for (std::size_t l = 0; l < 2; ++l) {
      entering_.push_back(stream);
      model.layers[l].x = norm(stream, block(l) + "norm1");
      middle_.push_back(sum_of_both(stream, used.dropped(l, 0, model.layers[l].y)));
      normed_.push_back(norm(middle_[l], block(l) + "norm2"));
      const Tensor branch = oracles::expected_mlp(mlp(l, normed_[l])).value;
      stream = sum_of_both(middle_[l], used.dropped(l, 1, branch));
    }
    entering_.push_back(stream);
    const Tensor last = norm(stream, "norm_f");
    model.logits = oracles::expected_linear(
                       {last, {}}, model.large.at("lm_head.weight"), false, model.rounding, 1)
                       .value;
  }

  void backward(const ModelRows& used) {
    const Tensor dlast =
        oracles::expected_linear(
            {model.dlogits, {}}, model.large.at("lm_head.weight"), true, model.rounding, 1)
            .value;
    Tensor dstream = norm_gradient(entering_[2], "norm_f", dlast);
    for (std::size_t l = 2; l-- > 0;) {
      const Tensor dmlp = used.dropped(l, 1, dstream);
      const Tensor dnormed = oracles::expected_mlp_gradient(mlp(l, normed_[l]), dmlp).value;
      const Tensor dmiddle =
          sum_of_both(dstream, norm_gradient(middle_[l], block(l) + "norm2", dnormed));
      model.layers[l].dy = used.dropped(l, 0, dmiddle);
      dstream =
          sum_of_both(dmiddle, norm_gradient(entering_[l], block(l) + "norm1", model.layers[l].dx));
    }
  }

  DrawnParts drawn_;
  std::vector<Tensor> entering_, middle_, normed_;
};

TEST(Segments, DropoutIsPartOfTheStreamForwardAndBack) {
  const RecordedRows right([](ModelRows& /*used*/) {});
  Stream stream;
  EXPECT_FALSE(judge_forward(right.model, stream));
  EXPECT_FALSE(judge_backward(right.model, stream));
}

TEST(Segments, TheMaskOfAnotherRankIsNamed) {
  const RecordedRows wrong([](ModelRows& used) { used.place.rank = 1; });
  Stream stream;
  const auto found = judge_forward(wrong.model, stream);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->site.layers, std::vector<int>{0});
  EXPECT_EQ(found->site.op, "norm2_to_norm1");  // both halves of the block have it
}

TEST(Segments, AGradientThatIsNotDroppedIsNamed) {
  RecordedRows wrong([](ModelRows& /*used*/) {});
  Stream stream;
  ASSERT_FALSE(judge_forward(wrong.model, stream));
  Tensor& dy = wrong.model.layers[1].dy;
  const Tensor right = dy;
  for (std::size_t i = 0; i < dy.data.size(); ++i) dy.data[i] = dy.data[i] == 0 ? 0.2 : dy.data[i];
  const auto found = judge_backward(wrong.model, stream);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->site.layers, std::vector<int>{1});
  // Half of what is kept, as without the division by 1 - p.
  dy = right;
  for (double& x : dy.data) x /= 2;
  const auto unscaled = judge_backward(wrong.model, stream);
  ASSERT_TRUE(unscaled);
  // A residual sum that is halved gives the same.
  const auto& laws = unscaled->laws;
  EXPECT_TRUE(std::any_of(laws.begin(), laws.end(), [](const harness::checks::KnownLaw& law) {
    return law.name == "dropout_not_scaled";
  }));
}

}  // namespace
