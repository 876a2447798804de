// Wrong laws of q, and of the keys and values of all tokens, against the laws said in plain words;
// and what the list of laws itself promises.
#include <set>

#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

const std::map<Stage, std::string>& weight_names() {
  static const std::map<Stage, std::string> kNames{{Stage::q, "W_Q.weight"},
                                                   {Stage::k_raw, "W_K_cmp.weight"},
                                                   {Stage::v_raw, "W_V_cmp.weight"},
                                                   {Stage::k_sel, "W_K_sel.weight"},
                                                   {Stage::v_sel, "W_V_sel.weight"},
                                                   {Stage::k_win, "W_K_win.weight"},
                                                   {Stage::v_win, "W_V_win.weight"}};
  return kNames;
}

bool is_value(Stage stage) {
  return weight_names().at(stage).rfind("W_V", 0) == 0;
}
Index width_of(const Case& s, Stage stage) {
  return is_value(stage) ? s.c().d_v : s.c().d_k;
}
Index heads_of(const Case& s, Stage stage) {
  return stage == Stage::q ? s.c().n_heads : s.c().n_kv_groups;
}

// The stage's tensor, of(b, head, t) being one head of one token.
using HeadOf = std::function<Vector(Index b, Index head, Index t)>;
Tensor of_heads(const Case& s, Stage stage, const HeadOf& of) {
  if (stage == Stage::q) {
    return built({s.batch(), s.c().n_kv_groups, s.heads(), s.rows(), s.c().d_k},
                 [&](const std::vector<Index>& at) {
                   return of(at[0], at[1] * s.heads() + at[2], s.right.rows[at[3]]);
                 });
  }
  return built({s.batch(), s.c().n_kv_groups, s.length(), width_of(s, stage)},
               [&](const std::vector<Index>& at) { return of(at[0], at[1], at[2]); });
}

Vector raw(const Case& s, Stage stage, const std::string& weight, Index b, Index head, Index t) {
  return projected(s, weight, head * width_of(s, stage), width_of(s, stage), b, t);
}

Vector usual_turn(const Case& s, Stage stage, const Vector& z, Index t) {
  return is_value(stage) ? z : turned(z, usual_angle(s, t));
}

Restatement turned_as(const Turning& turning) {
  return [turning](const Case& s, Stage stage) {
    return of_heads(s, stage, [&](Index b, Index head, Index t) {
      return turning(
          s, raw(s, stage, weight_names().at(stage), b, head, t), heads_of(s, stage), head, t);
    });
  };
}

Restatement with_weight(const std::function<std::string(const std::string&)>& other) {
  return [other](const Case& s, Stage stage) {
    return of_heads(s, stage, [&](Index b, Index head, Index t) {
      return usual_turn(s, stage, raw(s, stage, other(weight_names().at(stage)), b, head, t), t);
    });
  };
}

// W_K_sel.weight -> W_K_win.weight
Restatement of_branch(const std::string& branch) {
  return with_weight([branch](std::string name) { return name.replace(4, 3, branch); });
}

// Number i of head `head` at t lies at (head*S + t)*W + i of what a batch has in memory.
Tensor reshaped_heads(const Case& s, Stage stage) {
  return of_heads(s, stage, [&](Index b, Index head, Index t) {
    Vector z;
    const Index width = width_of(s, stage);
    const Index token_size = heads_of(s, stage) * width;
    for (Index i = 0; i < width; ++i) {
      const Index place = (head * s.length() + t) * width + i;
      z.push_back(product(
          s.w(weight_names().at(stage)), place % token_size, s.layer.x, b, place / token_size));
    }
    return usual_turn(s, stage, z, t);
  });
}

Tensor group_minor(const Case& s, Stage stage) {
  return of_heads(s, stage, [&](Index b, Index head, Index t) {
    const Index g = head / s.heads();
    const Index i = head % s.heads();
    return turned(raw(s, stage, "W_Q.weight", b, i * s.c().n_kv_groups + g, t), usual_angle(s, t));
  });
}

Tensor rotated_values(const Case& s, Stage stage) {
  return of_heads(s, stage, [&](Index b, Index head, Index t) {
    return turned(raw(s, stage, weight_names().at(stage), b, head, t), [&](Index c) {
      return static_cast<double>(t) / s.c().rope_scale * frequency(s.c().rope_base, c, s.c().d_v);
    });
  });
}

Restatements restated_projections() {
  Restatements all = layouts();
  for (const auto& [name, turning] : wrong_turns()) {
    all[name] = turned_as(turning);
  }
  all.merge(Restatements{{"heads_reshaped", reshaped_heads},
                         {"heads_group_minor", group_minor},
                         {"weights_of_cmp", of_branch("cmp")},
                         {"weights_of_sel", of_branch("sel")},
                         {"weights_of_win", of_branch("win")},
                         {"weights_exchanged", with_weight([](std::string name) {
                            return name.replace(2, 1, name[2] == 'K' ? "V" : "K");
                          })},
                         {"values_rotated", rotated_values}});
  return all;
}

TEST(StageProjections, EveryLawIsWhatItSays) {
  std::vector<Stage> stages;
  for (const auto& [stage, name] : weight_names()) {
    stages.push_back(stage);
  }
  expect_all_restated(stages, restated_projections());
}

TEST(StageLaws, NameAndStageAreUnique) {
  std::set<std::pair<std::string_view, Stage>> seen;
  for (const StageLaw& law : stage_laws()) {
    EXPECT_FALSE(law.law.about.empty()) << law.law.name;
    EXPECT_FALSE(law.stages.empty()) << law.law.name;
    for (const Stage stage : law.stages) {
      EXPECT_TRUE(seen.insert({law.law.name, stage}).second) << law.law.name << stage_name(stage);
    }
  }
}

TEST(StageLaws, EveryStageHasLawsAndAName) {
  std::set<std::string_view> names;
  for (const Stage stage : all_stages()) {
    EXPECT_TRUE(names.insert(stage_name(stage)).second);
    EXPECT_EQ(stage_named(stage_name(stage)), stage);
    EXPECT_FALSE(cases()[0].laws(stage).empty()) << stage_name(stage);
  }
  EXPECT_EQ(names.size(), 16u);
}

TEST(StageLaws, TheRightTensorsAreTheOracles) {
  for (const Case& s : cases()) {
    const AttentionResult& r = s.right;
    EXPECT_EQ(s.stages.right(Stage::q).data, r.q.data);
    EXPECT_EQ(s.stages.right(Stage::k_cmp).data, r.k_cmp.data);
    EXPECT_EQ(s.stages.right(Stage::v_cmp).data, r.v_cmp.data);
    EXPECT_EQ(s.stages.right(Stage::p_grp).data, r.p_grp.data);
    EXPECT_EQ(s.stages.right(Stage::blocks).shape, r.blocks.shape);
    EXPECT_EQ(s.stages.right(Stage::o_cmp).data, r.o_cmp.data);
    EXPECT_EQ(s.stages.right(Stage::o_sel).data, r.o_sel.data);
    EXPECT_EQ(s.stages.right(Stage::o_win).data, r.o_win.data);
    EXPECT_EQ(s.stages.right(Stage::gate).data, r.gate.data);
    EXPECT_EQ(s.stages.right(Stage::y).data, r.y.data);
    for (std::size_t i = 0; i < r.blocks.data.size(); ++i) {
      ASSERT_EQ(s.stages.right(Stage::blocks).data[i], static_cast<double>(r.blocks.data[i]));
    }
  }
}

TEST(StageLaws, RightKeysAndValuesOfAllTokens) {
  for (const Case& s : cases()) {
    for (const auto& [stage, name] : weight_names()) {
      const Tensor wanted = with_weight([](const std::string& own) { return own; })(s, stage);
      EXPECT_LT(largest_difference(s.stages.right(stage), wanted), 1e-12) << name;
    }
  }
}

TEST(StageLaws, WhatMakesNoSenseIsRefused) {
  const Case& s = cases()[0];  // rope_scale 1, phi avg, group_softmax
  EXPECT_THROW((void)s.output("rope_scale_ignored", Stage::q), std::invalid_argument);
  EXPECT_THROW((void)s.output("taps_reversed", Stage::k_cmp), std::invalid_argument);
  EXPECT_THROW((void)s.output("branch_major", Stage::gate), std::invalid_argument);
  EXPECT_THROW((void)s.output("rope_missing", Stage::v_sel), std::invalid_argument);
  EXPECT_THROW((void)s.output("one_longer", Stage::o_sel), std::invalid_argument);
  EXPECT_THROW((void)s.output("no such law", Stage::q), std::invalid_argument);
}

TEST(StageLaws, OneGroupOfOneHeadHasNoOtherHeads) {
  const Case s(case_layer(6, [](auto& c) { c.n_heads = c.n_kv_groups = 1; }), {});
  for (const Stage stage : all_stages()) {
    for (const std::string_view law : s.laws(stage)) {
      EXPECT_EQ(law.find("head"), std::string_view::npos) << law;
      EXPECT_EQ(law.find("group"), std::string_view::npos) << law;
    }
  }
}

TEST(StageLaws, NoCompressedTokenIsNoTrouble) {
  Random random(7);
  const Case s(RandomLayer(random, dropping_layer(0).config, 1, 3), {});
  for (const Stage stage : all_stages()) {
    for (const std::string_view law : s.laws(stage)) {
      EXPECT_EQ(s.output(law, stage).shape, s.stages.right(stage).shape) << law;
    }
  }
}

}  // namespace
}  // namespace oracles::testing
