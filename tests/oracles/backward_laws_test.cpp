// Wrong laws of the backward: each is what it says, is named by the gradients that it makes, and
// right gradients by none; heads whose share counts more or less than once are told.
#include "oracles/laws/backward_laws.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "oracles/numbers.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

constexpr Branch kEach[] = {Branch::cmp, Branch::sel, Branch::win};

struct Setting {
  RandomLayer layer;
  AttentionResult right = attention(layer.config, layer.weights, layer.x);
  Stages forward{layer.config, layer.weights, layer.x};
  Backward backward{forward, layer.dy};
  AttentionGradients gradients = backward.gradients();

  explicit Setting(const RandomLayer& from) : layer(from) {}
  [[nodiscard]] const AttentionConfig& c() const { return layer.config; }
  [[nodiscard]] bool lists(Index group, Index t, Index block) const {
    return taken(right.blocks, group, t, block);
  }
  [[nodiscard]] bool sees(Branch branch, Index group, Index t, Index u) const {
    switch (branch) {
      case Branch::cmp: return u * c().d + c().l <= t + 1;
      case Branch::sel: return u <= t && lists(group, t, u / c().l_sel);
      default: return t - c().w < u && u <= t;
    }
  }
};

// The backward of one branch, the long way.
struct Plain {
  double deltas = 1;
  double factor = 1;
  // How often (t, u) adds to the gradients of key and value u; by the right law where it sees the
  // key.
  std::function<double(const Setting&, Index group, Index t, Index u)> counts = {};
};

void add_row(const Setting& s,
             Branch branch,
             const Plain& plain,
             Index head,
             Index t,
             BranchGradients& sums) {
  const Tensor& k = s.forward.input(key_stage(branch));
  const Tensor& v = s.forward.input(value_stage(branch));
  const Index group = head / s.c().heads_per_group();
  const Index count = k.shape[2];
  const Index row = head * s.layer.length() + t;
  const Vector q = row_of(s.right.q, row);
  const Vector d_o = row_of(s.backward.of_output(branch), row);
  const double root = std::sqrt(static_cast<double>(s.c().d_k));
  const auto weight = [&](Index u) {
    return std::exp(dot(q, row_of(k, group * count + u)) / root);
  };
  double sum = 0;
  double delta = 0;
  for (Index u = 0; u < count; ++u) {
    if (s.sees(branch, group, t, u)) {
      sum += weight(u);
      delta += weight(u) * dot(d_o, row_of(v, group * count + u));
    }
  }
  if (sum == 0) {
    return;
  }
  for (Index u = 0; u < count; ++u) {
    const bool seen = s.sees(branch, group, t, u);
    const double times = plain.counts ? plain.counts(s, group, t, u) : (seen ? 1 : 0);
    const double p = weight(u) / sum;
    const double dp = dot(d_o, row_of(v, group * count + u));
    const double ds = plain.factor * p * (dp - plain.deltas * delta / sum) / root;
    for (Index c = 0; c < s.c().d_k; ++c) {
      sums.q.data[row * s.c().d_k + c] +=
          seen ? ds * k.data[(group * count + u) * s.c().d_k + c] : 0;
      sums.k.data[(group * count + u) * s.c().d_k + c] += times * ds * q[c];
    }
    for (Index c = 0; c < s.c().d_v; ++c) {
      sums.v.data[(group * count + u) * s.c().d_v + c] += times * p * d_o[c];
    }
  }
}

BranchGradients restated(const Setting& s, Branch branch, const Plain& plain) {
  BranchGradients sums{zeros(s.forward.shape_of(Stage::q)),
                       zeros(s.forward.shape_of(key_stage(branch))),
                       zeros(s.forward.shape_of(value_stage(branch)))};
  for (Index head = 0; head < s.layer.x.shape[0] * s.c().n_heads; ++head) {
    for (Index t = 0; t < s.layer.length(); ++t) {
      add_row(s, branch, plain, head, t, sums);
    }
  }
  return sums;
}

// The queries of a group that list a block, in order.
std::vector<Index> pickers(const Setting& s, Index group, Index block) {
  std::vector<Index> queries;
  for (Index t = 0; t < s.layer.length(); ++t) {
    if (s.lists(group, t, block)) {
      queries.push_back(t);
    }
  }
  return queries;
}

using Counts = double (*)(const std::vector<Index>& pickers, Index t);
Plain by_pickers(Counts counts) {
  return {.counts = [counts](const Setting& s, Index group, Index t, Index u) {
    return s.sees(Branch::sel, group, t, u) ? counts(pickers(s, group, u / s.c().l_sel), t) : 0.0;
  }};
}

std::map<std::string_view, std::function<Plain(const Setting&)>> restatements() {
  const auto with = [](double deltas) {
    return [deltas](const Setting&) { return Plain{.deltas = deltas}; };
  };
  return {
      {"delta_missing", with(0)},
      {"delta_twice", with(2)},
      {"delta_3_times", with(3)},
      {"delta_4_times", with(4)},
      {"delta_8_times", with(8)},
      {"gradient_scale_missing",
       [](const Setting& s) { return Plain{.factor = std::sqrt(static_cast<double>(s.c().d_k))}; }},
      {"gradient_scale_twice",
       [](const Setting& s) {
         return Plain{.factor = 1 / std::sqrt(static_cast<double>(s.c().d_k))};
       }},
      {"lists_transposed",
       [](const Setting&) {
         return Plain{.counts = [](const Setting& s, Index group, Index t, Index u) {
           return s.lists(group, u, t / s.c().l_sel) ? 1.0 : 0.0;
         }};
       }},
      {"lists_transposed_causal",
       [](const Setting&) {
         return Plain{.counts = [](const Setting& s, Index group, Index t, Index u) {
           return u <= t && s.lists(group, u, t / s.c().l_sel) ? 1.0 : 0.0;
         }};
       }},
      {"last_pick_only",
       [](const Setting&) {
         return by_pickers(
             [](const std::vector<Index>& of, Index t) { return of.back() == t ? 1.0 : 0.0; });
       }},
      {"first_pick_only",
       [](const Setting&) {
         return by_pickers(
             [](const std::vector<Index>& of, Index t) { return of.front() == t ? 1.0 : 0.0; });
       }},
      {"shared_picks_twice", [](const Setting&) {
         return by_pickers(
             [](const std::vector<Index>& of, Index) { return of.size() > 1 ? 2.0 : 1.0; });
       }}};
}

TEST(BackwardLaws, EveryLawIsWhatItSays) {
  const Setting s(case_layer(1, [](auto&) {}));
  const auto all = restatements();
  for (const BackwardLaw& law : backward_laws()) {
    ASSERT_TRUE(all.count(law.law.name)) << law.law.name;
    for (const Branch branch : law.branches) {
      const BranchGradients found = law.through(s.backward, branch);
      const BranchGradients wanted = restated(s, branch, all.at(law.law.name)(s));
      for (const auto& [own, right] : {std::pair{&found.q, &wanted.q},
                                       std::pair{&found.k, &wanted.k},
                                       std::pair{&found.v, &wanted.v}}) {
        EXPECT_LT(largest_difference(*own, *right), 1e-12 * std::max(1.0, finite_scale(*right)))
            << law.law.name;
      }
    }
  }
  EXPECT_EQ(all.size(), backward_laws().size());
}

TEST(BackwardLaws, TheRestatementWithoutALawIsTheRightOne) {
  const Setting s(case_layer(1, [](auto&) {}));
  for (const Branch branch : kEach) {
    const BranchGradients wanted = restated(s, branch, {});
    EXPECT_LT(largest_difference(s.backward.through(branch).q, wanted.q), 1e-12);
    EXPECT_LT(largest_difference(s.backward.through(branch).k, wanted.k), 1e-12);
    EXPECT_LT(largest_difference(s.backward.through(branch).v, wanted.v), 1e-12);
  }
}

// Splitting the values leaves their own gradient right, and so does reading wrong lists for
// queries.
TEST(BackwardLaws, SomeGradientsStayRight) {
  const Setting s(case_layer(1, [](auto&) {}));
  for (const BackwardLaw& law : backward_laws()) {
    const BranchGradients found = law.through(s.backward, Branch::sel);
    const BranchGradients& right = s.backward.through(Branch::sel);
    const bool of_lists = law.branches.size() == 1;
    EXPECT_EQ(largest_difference(found.v, right.v) > 1e-9, of_lists) << law.law.name;
    EXPECT_EQ(largest_difference(found.q, right.q) > 1e-9, !of_lists) << law.law.name;
    EXPECT_GT(largest_difference(found.k, right.k), 1e-9) << law.law.name;
  }
}

// ---- naming -------------------------------------------------------------------------------------

// Gradients as they may be recorded, each against the right one.
struct Recorded {
  Weights found;
  std::vector<RecordedGradient> all;

  Recorded(const Setting& s, const AttentionGradients& made, Number number, double relative) {
    found = made.weights;
    found["x"] = made.x;
    for (auto& [name, gradient] : found) {
      gradient = rounded_to(std::move(gradient), number);
    }
    for (const auto& [name, gradient] : found) {
      const Tensor& right = name == "x" ? s.gradients.x : s.gradients.weights.at(name);
      all.push_back(
          {name, gradient, right, {relative, finite_scale(right), unit_roundoff(number)}});
    }
  }
};

TEST(BackwardLaws, GradientsMadeByALawAreNamedByItAlone) {
  for (const std::uint64_t seed : {1, 2}) {
    const Setting s(case_layer(seed, [&](auto& c) {
      c.phi = seed == 1 ? Phi::avg : Phi::conv;
      c.gate = seed == 1 ? Gate::group_softmax : Gate::head_sigmoid;
    }));
    for (const auto& [number, relative] : {std::pair{Number::f64, 1e-11},
                                           std::pair{Number::f32, 0x1p-20},
                                           std::pair{Number::bf16, 0x1p-6}}) {
      for (const BackwardLaw& law : backward_laws()) {
        for (const Branch branch : law.branches) {
          const AttentionGradients made =
              s.backward.gradients(branch, law.through(s.backward, branch));
          const Recorded recorded(s, made, number, relative);
          const GradientNaming found = name_gradients(s.backward, recorded.all);
          ASSERT_NE(found.naming.alone(), nullptr)
              << law.law.name << " " << branch_name(branch) << " in " << number_name(number) << ": "
              << found.naming.text();
          EXPECT_EQ(found.naming.alone()->law.name, law.law.name);
          EXPECT_EQ(found.naming.alone()->share, 1);
          EXPECT_EQ(found.branch, branch) << law.law.name;
        }
      }
      const GradientNaming right =
          name_gradients(s.backward, Recorded(s, s.gradients, number, relative).all);
      EXPECT_TRUE(right.naming.right.fits() && right.naming.fitting.empty());
    }
  }
}

TEST(BackwardLaws, OneFactorOfSeveralGradientsIsOnePattern) {
  const Setting s(case_layer(1, [](auto&) {}));
  const auto named = [&](double of_keys, double of_values) {
    AttentionGradients made = s.gradients;
    for (const auto& [name, factor] :
         {std::pair{"W_K_win.weight", of_keys}, std::pair{"W_V_win.weight", of_values}}) {
      for (double& value : made.weights.at(name).data) {
        value *= factor;
      }
    }
    const Recorded recorded(s, made, Number::f64, 1e-11);
    return name_gradients(s.backward, recorded.all).naming.text();
  };
  EXPECT_NE(named(2, 2).find("2 times"), std::string::npos) << named(2, 2);
  EXPECT_EQ(named(2, 3), "no known law");
}

// ---- heads --------------------------------------------------------------------------------------

TEST(WrongHeads, SharesThatCountMoreOrLessAreTold) {
  const Setting s(case_layer(3, [](auto& c) { c.phi = Phi::mlp; }));
  for (const char* name :
       {"W_K_cmp.weight", "W_V_cmp.weight", "W_K_sel.weight", "W_V_sel.weight", "W_V_win.weight"}) {
    Tensor found = s.gradients.weights.at(name);
    for (const auto& [head, count] : {std::pair{1, 0.0}, std::pair{5, 1.5}}) {
      // What all other heads put out counts nothing.
      Weights weights = s.layer.weights;
      Tensor& out = weights.at("out.weight");
      for (std::size_t i = 0; i < out.data.size(); ++i) {
        const Index column = static_cast<Index>(i) % out.shape[1];
        out.data[i] *= column / s.c().d_v == head ? 1 : 0;
      }
      const Tensor share = attention_with_gradients(s.c(), weights, s.layer.x, s.layer.dy)
                               .gradients.weights.at(name);
      for (std::size_t i = 0; i < share.data.size(); ++i) {
        found.data[i] += (count - 1) * share.data[i];
      }
    }
    const Tensor& right = s.gradients.weights.at(name);
    const auto told =
        wrong_heads(s.backward, {name, found, right, {1e-10, finite_scale(right), 0x1p-53}});
    ASSERT_TRUE(told) << name;
    EXPECT_EQ(told->heads, (std::vector<int>{1, 5})) << name;
    EXPECT_EQ(told->groups, (std::vector<int>{0, 1})) << name;
    ASSERT_EQ(told->counts.size(), 2u) << name;
    EXPECT_NEAR(told->counts.at(1), 0, 1e-8);
    EXPECT_NEAR(told->counts.at(5), 1.5, 1e-8);
  }
}

TEST(WrongHeads, QueriesHaveRowsOfTheirOwnAndOthersNone) {
  const Setting s(case_layer(1, [](auto&) {}));
  const auto told = [&](const std::string& name, std::size_t place) {
    Tensor found = s.gradients.weights.at(name);
    found.data[place] += 1;
    const Tensor& right = s.gradients.weights.at(name);
    return wrong_heads(s.backward, {name, found, right, {1e-10, finite_scale(right), 0x1p-53}});
  };
  const auto queries = told("W_Q.weight", static_cast<std::size_t>(4 * 6 * s.c().dim + 3));
  ASSERT_TRUE(queries);
  EXPECT_EQ(queries->heads, std::vector<int>{4});
  EXPECT_EQ(queries->groups, std::vector<int>{1});
  EXPECT_TRUE(queries->counts.empty());
  EXPECT_FALSE(told("out.weight", 3));
  EXPECT_FALSE(told("gate.fc1.weight", 3));
  // What no shares explain is told of all heads of the group.
  const auto keys = told("W_K_win.weight", 3);
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->heads, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(keys->counts.empty());
}

}  // namespace
}  // namespace oracles::testing
