// Every wrong law against attention the long way over the keys that the law means.
#include "oracles/laws/key_laws.h"

#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "oracles/attention/activations.h"
#include "tests/oracles/naive.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

constexpr double kRounding = 1e-13;

struct Setting {
  RandomLayer layer = dropping_layer(21);
  AttentionResult right = attention(layer.config, layer.weights, layer.x);
  KeyLawOutputs laws{layer.config, layer.weights, layer.x};

  // May (b,g,t) see token or compressed token u by the right law?
  [[nodiscard]] bool allowed(
      Branch branch, std::int64_t b, std::int64_t g, std::int64_t t, std::int64_t u) const {
    const AttentionConfig& c = layer.config;
    switch (branch) {
      case Branch::cmp: return u * c.d + c.l - 1 <= t;
      case Branch::sel: return u <= t && in_blocks(b, g, t, u);
      default: return t - c.w < u && u <= t;
    }
  }
  [[nodiscard]] bool in_blocks(std::int64_t b,
                               std::int64_t g,
                               std::int64_t t,
                               std::int64_t u) const {
    return taken(right.blocks, b * layer.config.n_kv_groups + g, t, u / layer.config.l_sel);
  }
};

const char* name_of(Branch branch) {
  return branch == Branch::cmp ? "cmp" : branch == Branch::sel ? "sel" : "win";
}

void expect_law(const Setting& s, const char* law, Branch branch, const Seen& seen) {
  const Tensor found = s.laws.output(law, branch);
  const Tensor wanted =
      naive_branch(s.layer.config, s.layer.weights, s.layer.x, s.right, name_of(branch), seen);
  EXPECT_LT(largest_difference(found, wanted), kRounding) << law << " " << name_of(branch);
}

constexpr Branch kEach[] = {Branch::cmp, Branch::sel, Branch::win};

TEST(KeyLaws, TopLeftSeesTheFirstKeyOfItsList) {
  const Setting s;
  for (const Branch branch : kEach) {
    expect_law(s, "top_left", branch, [&](auto b, auto g, auto t, auto u) {
      bool first = s.allowed(branch, b, g, t, u);
      for (std::int64_t earlier = 0; earlier < u; ++earlier) {
        first = first && !s.allowed(branch, b, g, t, earlier);
      }
      return first;
    });
  }
}

TEST(KeyLaws, InvertedSeesExactlyTheOthers) {
  const Setting s;
  for (const Branch branch : kEach) {
    expect_law(s, "inverted", branch, [&](auto b, auto g, auto t, auto u) {
      return !s.allowed(branch, b, g, t, u);
    });
  }
}

TEST(KeyLaws, InvertedWithinThePastAndWithinTheBlocks) {
  const Setting s;
  for (const Branch branch : {Branch::sel, Branch::win}) {
    expect_law(s, "inverted_past", branch, [&](auto b, auto g, auto t, auto u) {
      return u <= t && !s.allowed(branch, b, g, t, u);
    });
  }
  expect_law(s, "inverted_slice", Branch::sel, [&](auto b, auto g, auto t, auto u) {
    return u > t && s.in_blocks(b, g, t, u);
  });
}

TEST(KeyLaws, NoMaskSeesTheSliceOrTheSequence) {
  const Setting s;
  const Seen all = [](auto, auto, auto, auto) { return true; };
  expect_law(s, "no_mask", Branch::cmp, all);
  expect_law(s, "no_mask", Branch::win, all);
  expect_law(s, "no_mask", Branch::sel, [&](auto b, auto g, auto t, auto u) {
    return s.in_blocks(b, g, t, u);
  });
  expect_law(s, "every_key", Branch::sel, all);
}

TEST(KeyLaws, EveryPastKey) {
  const Setting s;
  for (const Branch branch : {Branch::sel, Branch::win}) {
    expect_law(s, "every_past_key", branch, [](auto, auto, auto t, auto u) { return u <= t; });
  }
}

TEST(KeyLaws, WindowsOneLongerAndOneShorter) {
  const Setting s;
  const std::int64_t w = s.layer.config.w;
  expect_law(s, "one_longer", Branch::win, [w](auto, auto, auto t, auto u) {
    return t - w <= u && u <= t;
  });
  expect_law(s, "one_shorter", Branch::win, [w](auto, auto, auto t, auto u) {
    return t - w + 1 < u && u <= t;
  });
}

TEST(KeyLaws, DropCurrentLeavesTheIncompleteBlockOut) {
  const Setting s;
  const std::int64_t size = s.layer.config.l_sel;
  expect_law(s, "drop_current", Branch::sel, [&](auto b, auto g, auto t, auto u) {
    const bool incomplete = t % size != size - 1;
    return s.allowed(Branch::sel, b, g, t, u) && !(incomplete && u / size == t / size);
  });
}

// exp(-10000 - logit) is zero beside any real logit: only rows without keys show the sentinel, as
// the mean of all values.
TEST(KeyLaws, FiniteSentinelShowsInRowsWithoutKeys) {
  const Setting s;
  const std::int64_t tokens = s.right.v_cmp.shape[2];
  const std::int64_t width = s.layer.config.d_v;
  Tensor wanted = s.right.o_cmp;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(wanted.data.size()); ++i) {
    const std::int64_t t = i / width % s.layer.length();
    const std::int64_t group = i / width / s.layer.length() / s.layer.config.heads_per_group();
    for (std::int64_t token = 0; token < tokens && t < s.layer.config.l - 1; ++token) {
      wanted.data[i] += s.right.v_cmp.data[(group * tokens + token) * width + i % width] /
                        static_cast<double>(tokens);
    }
  }
  EXPECT_LT(largest_difference(s.laws.output("finite_sentinel", Branch::cmp), wanted), kRounding);
  EXPECT_LT(largest_difference(s.laws.output("finite_sentinel", Branch::sel), s.right.o_sel),
            kRounding);
  EXPECT_LT(largest_difference(s.laws.output("finite_sentinel", Branch::win), s.right.o_win),
            kRounding);
}

// With logits around -12000 the sentinel beats every key that is allowed.
TEST(KeyLaws, FiniteSentinelWinsOverVeryLowLogits) {
  Random random(4);
  AttentionConfig config = dropping_layer(0).config;
  config.rope_scale = 1e30;
  RandomLayer layer(random, config, 1, 20);
  for (double& value : layer.x.data) {
    value = 100 + value;
  }
  for (const char* name : {"W_Q.weight", "W_K_win.weight"}) {
    for (double& value : layer.weights[name].data) {
      value = std::string(name) == "W_Q.weight" ? 0.1 : -0.1;
    }
  }
  const KeyLawOutputs laws(config, layer.weights, layer.x);
  const Tensor found = laws.output("finite_sentinel", Branch::win);
  // Of the masked keys all have the same logit, so their plain mean.
  double mean = 0;
  for (std::int64_t u = 1; u < 20; ++u) {
    mean += naive_value(config, layer.weights, "win", layer.x, 0, 0, u)[0] / 19;
  }
  EXPECT_NEAR(found.data[0], mean, 1e-10);
}

TEST(KeyLaws, NamesAreUniqueAndEveryLawChangesSomething) {
  const Setting s;
  std::set<std::string_view> names;
  for (const KeyLaw& law : key_laws()) {
    EXPECT_TRUE(names.insert(law.name).second) << law.name;
    for (const Branch branch : law.branches) {
      const Tensor& right = branch == Branch::cmp   ? s.right.o_cmp
                            : branch == Branch::sel ? s.right.o_sel
                                                    : s.right.o_win;
      const double change = largest_difference(s.laws.output(law.name, branch), right);
      const bool may_agree = law.name == "finite_sentinel" && branch != Branch::cmp;
      EXPECT_TRUE(may_agree || change > 0.01) << law.name << " " << name_of(branch);
    }
  }
  EXPECT_EQ(names.size(), 11u);
}

TEST(KeyLaws, KeysAreThoseAttendedTo) {
  const Setting s;
  const KeyList keys = s.laws.keys("one_longer", Branch::win, 1, 0, 20);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].begin, 20 - s.layer.config.w);
  EXPECT_EQ(keys[0].end, 21);
  EXPECT_THROW((void)s.laws.keys("one_longer", Branch::win, 2, 0, 0), std::invalid_argument);
}

TEST(KeyLaws, UnknownNamesAndOtherBranchesAreRefused) {
  const Setting s;
  EXPECT_THROW((void)s.laws.output("one_longer", Branch::sel), std::invalid_argument);
  EXPECT_THROW((void)s.laws.output("right", Branch::win), std::invalid_argument);
}

TEST(KeyLaws, FollowRowsAndReplayedBlocks) {
  const Setting s;
  AttentionOptions options;
  options.rows = {9, 30};
  options.replay = filled<std::int64_t>({2, 2, 2, s.layer.config.n_sel}, -1);
  for (std::size_t i = 0; i < options.replay->data.size(); i += 4) {
    options.replay->data[i] = 1;
  }
  const KeyLawOutputs laws(s.layer.config, s.layer.weights, s.layer.x, options);
  EXPECT_EQ(laws.output("no_mask", Branch::sel).shape, (Shape{2, 2, 3, 2, 5}));
  const KeyList keys = laws.keys("top_left", Branch::sel, 0, 1, 1);
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_EQ(keys[0].begin, s.layer.config.l_sel);
}

// What was recorded of a layer gives what its weights and input give.
TEST(KeyLaws, RecordedInputsGiveTheSame) {
  const Setting s;
  const Projections made = project({s.layer.config, s.layer.weights, 1}, s.layer.x, {});
  AttendInputs inputs{made.rows, made.q_BGhRD, {}, {}, s.right.blocks};
  for (std::size_t i = 0; i < 3; ++i) {
    inputs.k[i] = made.branches[i].k;
    inputs.v[i] = made.branches[i].v;
  }
  const KeyLawOutputs recorded(s.layer.config, inputs, 1);
  EXPECT_EQ(recorded.right_output(Branch::cmp).data, s.right.o_cmp.data);
  EXPECT_EQ(recorded.right_output(Branch::sel).data, s.right.o_sel.data);
  EXPECT_EQ(recorded.right_output(Branch::win).data, s.right.o_win.data);
  for (const KeyLaw& law : key_laws()) {
    for (const Branch branch : law.branches) {
      EXPECT_EQ(recorded.output(law.name, branch).data, s.laws.output(law.name, branch).data)
          << law.name;
    }
  }
  inputs.v[2].data.pop_back();
  EXPECT_THROW(KeyLawOutputs(s.layer.config, inputs, 1), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
