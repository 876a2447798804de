// One branch's attention alone: its gradients are those that it has inside a layer; wrong ones are named and placed from the
// gradients of queries, keys and values themselves.
#include <cmath>

#include <gtest/gtest.h>

#include "oracles/laws/backward_laws.h"
#include "oracles/numbers.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

constexpr Branch kAllBranches[] = {Branch::cmp, Branch::sel, Branch::win};

struct Alone {
  RandomLayer layer;
  Stages forward{layer.config, layer.weights, layer.x};
  Backward whole{forward, layer.dy};

  explicit Alone(const RandomLayer& from) : layer(from) {}
  [[nodiscard]] Backward of(Branch branch) const {
    return {forward, branch, whole.of_output(branch)};
  }
};

std::vector<RecordedGradient> recorded(const BranchGradients& found, const BranchGradients& right) {
  const auto one = [](const char* of, const Tensor& made, const Tensor& wanted) {
    return RecordedGradient{of, made, wanted, {1e-11, finite_scale(wanted), 0x1p-53}};
  };
  return {one("q", found.q, right.q), one("k", found.k, right.k), one("v", found.v, right.v)};
}

TEST(BranchGradients, AreThoseInsideALayer) {
  const Alone s(case_layer(1, [](auto&) {}));
  for (const Branch branch : kAllBranches) {
    const Backward alone = s.of(branch);
    EXPECT_EQ(alone.through(branch).q.data, s.whole.through(branch).q.data);
    EXPECT_EQ(alone.through(branch).k.data, s.whole.through(branch).k.data);
    EXPECT_EQ(alone.through(branch).v.data, s.whole.through(branch).v.data);
  }
}

TEST(BranchGradients, MadeByALawAreNamedByItAlone) {
  const Alone s(case_layer(2, [](auto&) {}));
  for (const Branch branch : kAllBranches) {
    const Backward alone = s.of(branch);
    const BranchGradients& right = alone.through(branch);
    EXPECT_TRUE(name_gradients(alone, branch, recorded(right, right)).right.fits());
    for (const BackwardLaw& law : backward_laws()) {
      if (std::find(law.branches.begin(), law.branches.end(), branch) == law.branches.end())
        continue;
      const BranchGradients made = law.through(alone, branch);
      const Naming found = name_gradients(alone, branch, recorded(made, right));
      ASSERT_NE(found.alone(), nullptr) << law.law.name << ": " << found.text();
      EXPECT_EQ(found.alone()->law.name, law.law.name);
    }
  }
}

TEST(BranchGradients, OfOneHeadThatCountsLessAreTold) {
  const Alone s(case_layer(3, [](auto&) {}));
  const AttentionConfig& c = s.layer.config;
  constexpr int kHead = 4;
  for (const Branch branch : kAllBranches) {
    const Backward alone = s.of(branch);
    const BranchGradients& right = alone.through(branch);
    Tensor half = s.whole.of_output(branch);
    const auto size = static_cast<std::size_t>(half.shape[3] * half.shape[4]);
    for (std::size_t i = 0; i < half.data.size(); ++i) {
      if (static_cast<std::int64_t>(i / size) % c.n_heads == kHead) half.data[i] *= 0.5;
    }
    const Backward halved(s.forward, branch, half);
    const BranchGradients& found = halved.through(branch);
    const int group = kHead / static_cast<int>(c.heads_per_group());
    for (const RecordedGradient& gradient : recorded(found, right)) {
      const WrongHeads told = wrong_heads(alone, branch, gradient);
      EXPECT_EQ(told.heads, std::vector<int>{kHead}) << gradient.of;
      EXPECT_EQ(told.groups, std::vector<int>{group}) << gradient.of;
      if (gradient.of == "q") continue;
      ASSERT_EQ(told.counts.size(), 1U) << gradient.of;
      EXPECT_NEAR(told.counts.at(kHead), 0.5, 1e-8);
    }
  }
}

Stages narrow_stages(const RandomLayer& layer) {
  AttentionOptions options;
  options.kept.results = Number::bf16;
  options.kept.narrow_products.fill(true);
  return {layer.config, layer.weights, layer.x, options};
}

// The places of the mean and of the rounding are ways to round one gradient: no two are the same, and all are near each other.
TEST(BranchGradients, TheMeanIsOfTheOutputOrOfRoundedGradients) {
  using Mean = Backward::Mean;
  const Alone s(case_layer(4, [](auto&) {}));
  const Stages narrow = narrow_stages(s.layer);
  for (const Branch branch : kAllBranches) {
    const Tensor& d_o = s.whole.of_output(branch);
    const Backward of_output(narrow, branch, d_o);
    const Backward of_rounded(narrow, branch, d_o, Mean::of_rounded);
    const Backward beside(narrow, branch, d_o, Mean::of_output_beside_rounded);
    const Tensor& one = of_output.through(branch).q;
    EXPECT_NE(of_rounded.through(branch).q.data, beside.through(branch).q.data);
    for (const Backward* other : {&of_rounded, &beside}) {
      const Tensor& two = other->through(branch).q;
      EXPECT_NE(one.data, two.data);
      EXPECT_LT(largest_difference(one, two), 0x1p-4 * finite_scale(one));
      EXPECT_EQ(of_output.through(branch).v.data, other->through(branch).v.data);
    }
  }
}

// Where 1/sqrt(d_k) is a power of two, it does not matter whether it comes before the rounding or after it.
TEST(BranchGradients, TheScaleMayComeAfterTheRounding) {
  for (const std::int64_t d_k : {16, 32}) {
    const Alone s(case_layer(4, [=](auto& c) { c.d_k = d_k; }));
    const Stages narrow = narrow_stages(s.layer);
    for (const Branch branch : kAllBranches) {
      const Tensor& d_o = s.whole.of_output(branch);
      const Backward first(narrow, branch, d_o);
      const Backward last(narrow, branch, d_o, Backward::Mean::of_output_scaled_last);
      const Tensor& one = first.through(branch).q;
      const Tensor& two = last.through(branch).q;
      EXPECT_EQ(one.data == two.data, d_k == 16);
      EXPECT_LT(largest_difference(one, two), 0x1p-4 * finite_scale(one));
    }
  }
}

TEST(BranchGradients, RefuseAGradientOfAnotherShapeAndOneThatIsNotFinite) {
  const Alone s(case_layer(1, [](auto&) {}));
  Tensor d_o = s.whole.of_output(Branch::win);
  d_o.data[3] = std::nan("");
  EXPECT_THROW(Backward(s.forward, Branch::win, d_o), std::invalid_argument);
  EXPECT_THROW(Backward(s.forward, Branch::win, zeros({1, 2})), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
