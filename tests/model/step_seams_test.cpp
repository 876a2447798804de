// Other implementations of the parts of a step outside the attention: the norm, the MLP's second map, the optimiser. Each
// against the reference: the same numbers where nothing else is computed, as near as rounding allows elsewhere; each counts
// itself.

#include "nsa/base/error.h"
#include "nsa/seams/mlp.h"
#include "nsa/seams/norm.h"
#include "nsa/train/optimizer.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

// Equal infinities (a norm of a step that was skipped) differ by nothing.
double furthest_apart(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(torch::kDouble);
  const Tensor y = b.to(torch::kDouble);
  return torch::where(x.eq(y), 0.0, (x - y).abs()).max().item<double>();
}

TEST(StepSeams, AFusedNormIsTheReferenceUpToRounding) {
  Routes routes;
  const auto run = [&](const std::string& name) {
    torch::manual_seed(1);
    const Tensor x = torch::randn({3, 7, 40}, torch::kFloat).requires_grad_(true);
    const Tensor weight = torch::randn({40}).requires_grad_(true);
    const Tensor y = make_norm({{"norm", name}}, routes, 4)(x, weight);
    y.backward(torch::randn_like(y));
    return std::vector<Tensor>{y.detach(), x.grad(), weight.grad()};
  };
  const auto right = run("reference");
  const auto found = run("fused");
  for (std::size_t i = 0; i < right.size(); ++i) {
    EXPECT_LE(furthest_apart(found[i], right[i]), 1e-5) << i;
    EXPECT_GT(right[i].abs().max().item<double>(), 0.1) << i;
  }
  for (const auto& count : routes.counts()) {
    EXPECT_EQ(count.seam, "norm");
    EXPECT_EQ(count.layer, 4);
    EXPECT_EQ(count.backward, 1) << count.implementation;
  }
  EXPECT_EQ(routes.counts().size(), 2U);
}

// What is computed again is computed alike: not a bit differs, and what is kept is less.
TEST(StepSeams, ALeanMlpIsTheReferenceBitForBit) {
  Routes routes;
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    const auto run = [&](const std::string& name) {
      torch::manual_seed(2);
      const auto drawn = [&](torch::IntArrayRef sizes) { return torch::randn(sizes).to(type); };
      const Tensor hidden = drawn({2, 9, 24}).requires_grad_(true);
      const Tensor weight = drawn({10, 24}).requires_grad_(true);
      const Tensor activated = torch::silu(hidden);
      const auto uses = activated.use_count();
      const Tensor y = make_mlp_down({{"mlp", name}}, routes, 0)(activated, hidden, weight);
      const bool keeps_it = activated.use_count() > uses;
      EXPECT_EQ(keeps_it, name == "reference");
      y.backward(drawn(y.sizes()));
      return std::vector<Tensor>{y.detach(), hidden.grad(), weight.grad()};
    };
    const auto right = run("reference");
    const auto found = run("lean");
    for (std::size_t i = 0; i < right.size(); ++i) {
      EXPECT_TRUE(torch::equal(found[i], right[i])) << i;
    }
  }
}

// Several steps, clipped and not, with a parameter that now and then has no gradient.
TEST(StepSeams, AFusedOptimiserIsTheReferenceUpToRounding) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const auto type = precision == Precision::fp32   ? torch::kFloat
                      : precision == Precision::bf16 ? torch::kBFloat16
                                                     : torch::kHalf;
    const auto run = [&](const std::string& name) {
      torch::manual_seed(3);
      std::vector<Tensor> parameters;
      for (const std::int64_t rows : {1, 5, 33}) {
        parameters.push_back(torch::randn({rows, 8}).to(type).requires_grad_(true));
      }
      OptimizerConfig config;
      config.max_norm = 3.0;
      config.weight_decay = 0.1;
      Optimizer optimizer(parameters, config, precision, name);
      EXPECT_STREQ(optimizer.implementation(), name.c_str());
      std::vector<double> norms;
      for (int step = 0; step < 5; ++step) {
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const Tensor drawn = torch::randn_like(parameters[i]) * (step == 2 ? 0.01 : 1.0);
          parameters[i].mutable_grad() =
              i == 1 && step == 1 ? Tensor() : drawn * optimizer.loss_scale() / 65536.0;
        }
        norms.push_back(optimizer.step());
      }
      const OptimizerState state = optimizer.state();
      std::vector<Tensor> results = optimizer.updated();
      results.insert(results.end(), state.exp_avg.begin(), state.exp_avg.end());
      results.insert(results.end(), state.exp_avg_sq.begin(), state.exp_avg_sq.end());
      results.push_back(torch::tensor(norms));
      results.push_back(torch::tensor(state.adam_steps));
      return results;
    };
    const auto right = run("reference");
    const auto found = run("fused");
    ASSERT_EQ(found.size(), right.size());
    for (std::size_t i = 0; i < right.size(); ++i) {
      EXPECT_LE(furthest_apart(found[i], right[i]), 1e-5)
          << i << " in precision " << static_cast<int>(precision);
    }
  }
}

TEST(StepSeams, ANameThatThereIsNotIsAnError) {
  Routes routes;
  EXPECT_THROW(static_cast<void>(make_norm({{"norm", "fast"}}, routes, 0)), Error);
  EXPECT_THROW(static_cast<void>(make_mlp_down({{"mlp", "fast"}}, routes, 0)), Error);
  EXPECT_THROW(Optimizer({}, OptimizerConfig{}, Precision::fp32, "fast"), Error);
}

}  // namespace
}  // namespace nsa::testing
