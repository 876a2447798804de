// Laws of judging one recorded layer: what is right passes in every variant and at every length, a
// wrong law is named from a few rows, a wrong stage is blamed alone, a long sequence is judged by a
// sample of its rows.
#include "harness/checks/attention/accuracy/layer_judge.h"

#include <set>

#include <gtest/gtest.h>

#include "harness/checks/attention/accuracy/law_codes.h"
#include "harness/checks/attention/record/sample_rows.h"
#include "harness/checks/attention/selection/choice_judge.h"
#include "nsa/base/text.h"
#include "oracles/attention/narrow_steps.h"
#include "oracles/laws/backward_laws.h"
#include "oracles/laws/offset_laws.h"
#include "oracles/laws/stage_laws.h"
#include "tests/checks/planted_numbers.h"

namespace {

using fixtures::LayerSetting;
using fixtures::LayerTensors;
using harness::checks::ChoiceJudgement;
using harness::checks::Departure;
using harness::checks::LayerJudgement;
using harness::checks::LayerRecord;
using oracles::Branch;

LayerRecord recorded(const LayerTensors& tensors,
                     const LayerSetting& setting,
                     std::uint64_t seed = 3) {
  const fixtures::TempFolder folder;
  const std::string path = folder.path() + "/layer.safetensors";
  fixtures::save_layer(path, tensors);
  harness::checks::ReadOptions options;
  options.gate_override = setting.gate_override;
  options.seed = seed;
  return harness::checks::read_layer(nsa::SafetensorsFile(path), setting.model, options);
}

LayerJudgement judged(const LayerSetting& setting, int layer = 0) {
  const LayerRecord record = recorded(fixtures::made_layer(setting, 0, layer), setting);
  return harness::checks::judge_layer(record, setting.model);
}

bool names_law(const Departure& seen, const std::string& name) {
  return std::any_of(seen.laws.begin(), seen.laws.end(), [&](const harness::checks::KnownLaw& law) {
    return law.name == name;
  });
}

std::string laws_text(const Departure& seen) {
  std::vector<std::string> names;
  for (const harness::checks::KnownLaw& law : seen.laws) names.push_back(law.name);
  return nsa::join(names);
}

std::string text_of(const std::vector<Departure>& departures) {
  std::string text;
  for (const Departure& seen : departures) {
    text += seen.code + " " + seen.site.branch + " " + seen.site.op + " " + seen.law() + " " +
            (seen.tensors.empty() ? "" : seen.tensors.front()) + "; ";
  }
  return text;
}

TEST(LayerJudge, WhatIsRightPassesInEveryVariantAndLength) {
  for (const nsa::Gate gate : {nsa::Gate::group_softmax, nsa::Gate::head_sigmoid}) {
    for (const nsa::Phi phi : {nsa::Phi::avg, nsa::Phi::conv, nsa::Phi::mlp}) {
      for (const std::int64_t length : {1, 3, 4, 5, 17, 32}) {
        LayerSetting setting;
        setting.model.gate = gate;
        setting.model.phi = phi;
        setting.model.eq9 = length % 2 == 0 ? nsa::Eq9::overlap : nsa::Eq9::fractional;
        setting.model.rope_scale = 2.0;
        setting.length = length;
        setting.batch = 2;
        if (length == 5) setting.gate_override = {0.0, 1.0, 0.0};
        const LayerRecord record = recorded(fixtures::made_layer(setting, 1, 0), setting);
        const LayerJudgement layer = harness::checks::judge_layer(record, setting.model);
        EXPECT_TRUE(layer.departures.empty()) << length << ": " << text_of(layer.departures);
        EXPECT_TRUE(layer.missing.empty());
        EXPECT_GT(layer.errors.size(), 20U);
        const ChoiceJudgement choice = harness::checks::judge_choice(record);
        EXPECT_TRUE(choice.departures.empty()) << length << ": " << text_of(choice.departures);
        EXPECT_TRUE(choice.missing.empty());
        EXPECT_EQ(choice.rows, 2 * 2 * length);
        EXPECT_LE(choice.worst_share_of_bound, 1.0);
      }
    }
  }
}

LayerSetting in_bfloat16() {
  LayerSetting setting;
  setting.number = oracles::Number::bf16;
  return setting;
}

// Rows [first, last) of a matrix.
void scale_rows(oracles::Tensor& matrix, std::int64_t first, std::int64_t last, double factor) {
  const std::int64_t width = matrix.shape.back();
  for (std::int64_t i = first * width; i < last * width; ++i) {
    matrix.data[static_cast<std::size_t>(i)] *= factor;
  }
}

TEST(LayerJudgeInBfloat16, WhatIsRightPassesInEveryVariantAndLength) {
  for (const nsa::Gate gate : {nsa::Gate::group_softmax, nsa::Gate::head_sigmoid}) {
    for (const nsa::Phi phi : {nsa::Phi::avg, nsa::Phi::conv, nsa::Phi::mlp}) {
      for (const std::int64_t length : {1, 4, 5, 32}) {
        LayerSetting setting = in_bfloat16();
        setting.model.gate = gate;
        setting.model.phi = phi;
        setting.length = length;
        if (length == 5) setting.gate_override = {0.0, 1.0, 0.0};
        const LayerJudgement layer = judged(setting, 1);
        EXPECT_TRUE(layer.departures.empty()) << length << ": " << text_of(layer.departures);
        EXPECT_TRUE(layer.missing.empty());
      }
    }
  }
}

TEST(LayerJudgeInBfloat16, AFactorInOneHeadIsFoundThere) {
  LayerSetting setting = in_bfloat16();
  setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
    if (name != "o_win") return;
    const std::int64_t rows = tensor.shape[3];
    scale_rows(tensor, 2 * rows, 3 * rows, 1.1);
  };
  const LayerJudgement layer = judged(setting);
  ASSERT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
  EXPECT_EQ(layer.departures.front().code, "NUMERIC.FORWARD");
  EXPECT_EQ(layer.departures.front().site.branch, "win");
  EXPECT_EQ(layer.departures.front().site.heads, (std::vector<int>{2}));
}

TEST(LayerJudgeInBfloat16, AFactorInOneGradientIsFoundThere) {
  for (const double factor : {0.8, 1.1}) {
    LayerSetting setting = in_bfloat16();
    setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
      if (name == "g.w.W_V_sel.weight") scale_rows(tensor, 0, tensor.shape[0] / 2, factor);
    };
    const LayerJudgement layer = judged(setting);
    ASSERT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
    EXPECT_EQ(layer.departures.front().code, "NUMERIC.GRADIENT");
    EXPECT_EQ(layer.departures.front().site.branch, "sel");
    EXPECT_EQ(layer.departures.front().site.param, "W_V_sel");
  }
}

// They cost hardly more than the rounding of what they make.
TEST(LayerJudgeInBfloat16, ARotationOrSoftmaxInThatTypeIsFound) {
  for (const auto how : {oracles::NarrowRotation::products, oracles::NarrowRotation::table}) {
    LayerSetting rotation = in_bfloat16();
    rotation.instead = [how](const oracles::Stages& forward,
                             oracles::Stage stage) -> std::optional<oracles::Tensor> {
      if (stage != oracles::Stage::k_win && stage != oracles::Stage::q) return std::nullopt;
      return oracles::with_narrow_rotation(forward, stage, how);
    };
    const LayerJudgement rotated = judged(rotation);
    ASSERT_FALSE(rotated.departures.empty());
    for (const Departure& seen : rotated.departures)
      EXPECT_EQ(seen.site.op, "rope") << text_of({seen});
  }
  LayerSetting softmax = in_bfloat16();
  softmax.instead = [](const oracles::Stages& forward,
                       oracles::Stage stage) -> std::optional<oracles::Tensor> {
    const Branch branch = oracles::branch_of(stage);
    if (stage != oracles::output_stage(branch)) return std::nullopt;
    return oracles::with_narrow_softmax(forward, branch);
  };
  const LayerJudgement attended = judged(softmax);
  std::set<std::string> branches;
  for (const Departure& seen : attended.departures) {
    EXPECT_EQ(seen.site.op, "attend_" + seen.site.branch) << text_of({seen});
    branches.insert(seen.site.branch);
  }
  EXPECT_EQ(branches, (std::set<std::string>{"cmp", "sel", "win"}));
}

TEST(LayerJudgeInBfloat16, GradientsOfConsumersAddedInThatTypeAreFound) {
  for (const nsa::Gate gate : {nsa::Gate::group_softmax, nsa::Gate::head_sigmoid}) {
    LayerSetting setting = in_bfloat16();
    setting.model.gate = gate;
    setting.added_narrow = true;
    const LayerJudgement layer = judged(setting);
    ASSERT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
    EXPECT_EQ(layer.departures.front().code, "NUMERIC.GRADIENT");
    EXPECT_EQ(layer.departures.front().tensors.back(), "dx");
  }
}

// Below the ceiling: they are told by the numbers that such angles give.
TEST(LayerJudge, AnglesInFloat32AreFoundWhereThePositionsAreLarge) {
  for (const auto how : {oracles::FloatAngles::frequencies, oracles::FloatAngles::products}) {
    LayerSetting setting;
    setting.length = 1024;
    setting.instead = [how](const oracles::Stages& forward,
                            oracles::Stage stage) -> std::optional<oracles::Tensor> {
      if (stage != oracles::Stage::k_win) return std::nullopt;
      return oracles::with_float_angles(forward, stage, how, forward.right(stage));
    };
    const LayerJudgement layer = judged(setting);
    ASSERT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
    EXPECT_EQ(layer.departures.front().code, "NUMERIC.FORWARD");
    EXPECT_EQ(layer.departures.front().site.op, "rope");
    EXPECT_EQ(layer.departures.front().site.branch, "win");
  }
}

std::string code_of(const oracles::StageLaw& law, oracles::Stage stage) {
  oracles::Naming naming;
  naming.fitting.push_back({law.law, {}, 1.0, {}});
  Departure seen;
  harness::checks::explain(naming, stage, seen);
  return seen.code;
}

// A law of the keys that gives wrong rows in one block of one group, or in a single row, is named
// by its code: alone, or with others of that code that give the same there.
TEST(LayerJudge, NamesAMaskFromOneBlockAlone) {
  const std::set<std::string_view> of_keys = {"top_left",
                                              "inverted",
                                              "inverted_past",
                                              "inverted_slice",
                                              "no_mask",
                                              "every_key",
                                              "every_past_key",
                                              "one_longer",
                                              "one_shorter",
                                              "drop_current"};
  for (const oracles::StageLaw& law : oracles::stage_laws()) {
    const std::string name(law.law.name);
    if (of_keys.count(name) == 0) continue;
    for (const oracles::Stage stage : law.stages) {
      if (stage == oracles::Stage::p_grp || stage == oracles::Stage::blocks) continue;
      const Branch branch = oracles::branch_of(stage);
      // Near the end little lies ahead: there no mask at all shows compressed tokens that a mask
      // off by one shows too.
      const std::int64_t first = branch == Branch::cmp && name == "no_mask" ? 12 : 28;
      for (const std::int64_t count : {1, 4}) {
        const auto which = [&](std::int64_t group, std::int64_t row) {
          return group == 1 && (count == 1 ? row == first + 2 : first <= row && row < first + 4);
        };
        const auto setting =
            fixtures::under_law(name, branch, std::string(oracles::stage_name(stage)), which, 0, 0);
        const LayerJudgement layer = judged(setting);
        ASSERT_EQ(layer.departures.size(), 1U) << name;
        const Departure& seen = layer.departures.front();
        const std::string told = name + " " + text_of(layer.departures) + laws_text(seen);
        EXPECT_EQ(seen.site.branch, oracles::branch_name(branch)) << told;
        EXPECT_EQ(seen.site.op, "attend_" + seen.site.branch) << told;
        EXPECT_EQ(seen.site.detail.at("groups"), std::vector<int>{1}) << told;
        for (const int row : seen.site.rows) EXPECT_GE(row, first) << told;
        EXPECT_TRUE(names_law(seen, name)) << told;
        EXPECT_EQ(seen.code, code_of(law, stage)) << told;
      }
    }
  }
}

// Every law that stands for a code, an operation or a parameter of its own is one of the oracle's.
TEST(LawCodes, AreOfLawsThatThereAre) {
  std::set<std::string_view> names;
  for (const oracles::StageLaw& law : oracles::stage_laws()) names.insert(law.law.name);
  names.insert(oracles::kOffsetsBeginAgain.name);
  const std::vector<std::string_view> coded = harness::checks::laws_with_codes();
  EXPECT_GE(coded.size(), 17U);
  for (const std::string_view law : coded) EXPECT_EQ(names.count(law), 1U) << law;
}

// Laws of several codes leave a wrong number; of one code, they give it though none is named.
TEST(LawCodes, AgreeOrSayNothing) {
  const auto told = [](const std::vector<std::string_view>& laws) {
    oracles::Naming naming;
    for (const std::string_view law : laws) naming.fitting.push_back({{law, "words"}, {}, 1.0, {}});
    Departure seen;
    seen.code = "NUMERIC.FORWARD";
    harness::checks::explain(naming, oracles::Stage::o_win, seen);
    return seen;
  };
  EXPECT_EQ(told({"inverted"}).law(), "inverted");
  EXPECT_EQ(told({"inverted", "inverted_past"}).code, "MASK.POLARITY");
  EXPECT_EQ(told({"inverted", "inverted_past"}).law(), "");
  EXPECT_EQ(told({"inverted", "inverted_past"}).laws.size(), 2U);
  EXPECT_EQ(told({"inverted", "top_left"}).code, "NUMERIC.FORWARD");
  EXPECT_EQ(told({"keys_of_sel", "keys_and_values_of_sel"}).site.param, "W_K_win");
  EXPECT_EQ(told({"keys_of_sel", "values_of_sel"}).site.param, "");
  EXPECT_EQ(told({}).law(), "");
}

// The first row that sees a compressed token, left zero, is no inverted mask, although at this
// length an inverted mask would leave that row zero too.
TEST(LayerJudge, AFirstRowLeftZeroIsNoInvertedMask) {
  LayerSetting setting;
  setting.length = setting.model.l;
  setting = fixtures::under_law(
      "first_row_zero",
      Branch::cmp,
      "o_cmp",
      [](std::int64_t, std::int64_t) { return true; },
      0,
      0,
      setting);
  const LayerJudgement layer = judged(setting);
  ASSERT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
  const Departure& seen = layer.departures.front();
  EXPECT_EQ(seen.code, "NUMERIC.FORWARD");
  EXPECT_EQ(seen.site.rows, std::vector<int>{static_cast<int>(setting.model.l) - 1});
  const auto is_told = [&](const std::string& law) { return names_law(seen, law); };
  EXPECT_TRUE(is_told("first_row_zero")) << text_of(layer.departures) << laws_text(seen);
  EXPECT_FALSE(is_told("inverted"));
}

TEST(LayerJudge, TellsTheRowsOfAFiniteSentinel) {
  const auto setting = fixtures::under_law(
      "finite_sentinel",
      Branch::cmp,
      "o_cmp",
      [](std::int64_t, std::int64_t) { return true; },
      0,
      0);
  const LayerJudgement layer = judged(setting);
  ASSERT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
  EXPECT_EQ(layer.departures.front().code, "NUMERIC.FORWARD");
  EXPECT_EQ(layer.departures.front().law(), "finite_sentinel");
  EXPECT_EQ(layer.departures.front().site.rows, (std::vector<int>{0, 1, 2}));
}

// One element of any stage: that stage is blamed, and no other, though all that follows from it was
// computed from it.
TEST(LayerJudge, BlamesTheStageAndNothingThatFollows) {
  const std::vector<std::string> stages = {"q",
                                           "k_raw",
                                           "v_raw",
                                           "k_sel",
                                           "v_sel",
                                           "k_win",
                                           "v_win",
                                           "k_cmp",
                                           "v_cmp",
                                           "o_cmp",
                                           "o_sel",
                                           "o_win",
                                           "gate",
                                           "y"};
  for (const std::string& stage : stages) {
    LayerSetting setting;
    setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
      if (name == stage) tensor.data.at(tensor.data.size() / 2) += 0.5;
    };
    const LayerRecord record = recorded(fixtures::made_layer(setting, 0, 1), setting);
    const LayerJudgement layer = harness::checks::judge_layer(record, setting.model);
    ASSERT_EQ(layer.departures.size(), 1U) << stage << ": " << text_of(layer.departures);
    EXPECT_EQ(layer.departures.front().tensors, std::vector<std::string>{stage});
    EXPECT_TRUE(harness::checks::judge_choice(record).departures.empty()) << stage;
  }
}

// A NaN is blamed on the stage that has it first; what is made of it says nothing.
TEST(LayerJudge, ANaNIsBlamedOnce) {
  for (const std::string stage : {"k_sel", "v_win", "o_cmp", "gate"}) {
    LayerSetting setting;
    setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
      if (name == stage) tensor.data.at(41) = std::nan("");
    };
    const LayerJudgement layer = judged(setting, 1);
    ASSERT_EQ(layer.departures.size(), 1U) << stage << ": " << text_of(layer.departures);
    EXPECT_EQ(layer.departures.front().tensors, std::vector<std::string>{stage});
  }
}

TEST(LayerJudge, ExplainsWrongInputsOfABranch) {
  struct Case {
    const char* law;
    Branch branch;
    const char* param;
  };
  const std::vector<Case> cases = {{"keys_and_values_of_win", Branch::sel, "W_K_sel"},
                                   {"values_of_sel", Branch::win, "W_V_win"},
                                   {"scale_missing", Branch::win, ""},
                                   {"next_groups_keys", Branch::cmp, ""}};
  for (const Case& one : cases) {
    const std::string stage(oracles::stage_name(oracles::output_stage(one.branch)));
    const auto setting = fixtures::under_law(
        one.law, one.branch, stage, [](std::int64_t, std::int64_t) { return true; }, 0, 2);
    const LayerJudgement layer = judged(setting, 2);
    ASSERT_EQ(layer.departures.size(), 1U) << one.law << ": " << text_of(layer.departures);
    EXPECT_EQ(layer.departures.front().law(), one.law);
    EXPECT_EQ(layer.departures.front().code, "NUMERIC.FORWARD");
    EXPECT_EQ(layer.departures.front().site.param, one.param);
  }
}

// ---- several mistakes at once -------------------------------------------------------------------

const auto kEverywhere = [](std::int64_t, std::int64_t) { return true; };

// Both settings' spoiling, one stage each.
LayerSetting with_both(const LayerSetting& a, const LayerSetting& b) {
  LayerSetting both = a;
  both.spoil = [=](const std::string& name, oracles::Tensor& tensor) {
    a.spoil(name, tensor);
    b.spoil(name, tensor);
  };
  return both;
}

TEST(LayerJudge, TwoWrongStagesAreTwoDeviations) {
  const LayerSetting sel = fixtures::under_law("top_left", Branch::sel, "o_sel", kEverywhere, 0, 0);
  const LayerSetting win =
      fixtures::under_law("one_longer", Branch::win, "o_win", kEverywhere, 0, 0);
  LayerSetting order;  // of the gate, and all that follows is mixed with it
  order.spoil = [](const std::string& name, oracles::Tensor& tensor) {
    for (std::size_t i = 0; name == "gate" && i < tensor.data.size(); i += 3) {
      std::swap(tensor.data[i], tensor.data[i + 2]);
    }
  };
  const LayerJudgement layer = judged(with_both(with_both(sel, win), order));
  ASSERT_EQ(layer.departures.size(), 3U) << text_of(layer.departures);
  EXPECT_EQ(layer.departures[0].law(), "top_left");
  EXPECT_EQ(layer.departures[0].code, "MASK.ALIGNMENT");
  EXPECT_EQ(layer.departures[1].law(), "one_longer");
  EXPECT_EQ(layer.departures[2].law(), "cmp_win_exchanged");
}

// A stage after a wrong one is judged from what it was given: its own mistake is named, and no
// more.
TEST(LayerJudge, AWrongStageAfterAWrongOneIsToldApart) {
  LayerSetting setting;
  setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
    if (name == "k_raw") tensor.data.at(41) += 0.5;
    if (name != "k_cmp") return;
    for (double& value : tensor.data) value *= 4.0;  // l
  };
  const LayerJudgement layer = judged(setting);
  ASSERT_EQ(layer.departures.size(), 2U) << text_of(layer.departures);
  EXPECT_EQ(layer.departures[0].tensors, std::vector<std::string>{"k_raw"});
  EXPECT_EQ(layer.departures[0].law(), "");
  EXPECT_EQ(layer.departures[1].tensors, std::vector<std::string>{"k_cmp"});
  EXPECT_EQ(layer.departures[1].law(), "sums");
}

std::set<std::string> judged_gradients(const LayerJudgement& layer) {
  std::set<std::string> names;
  for (const auto& [name, error] : layer.errors) {
    if (name == "dx" || name.rfind("g.w.", 0) == 0) names.insert(name);
  }
  return names;
}

// A wrong forward silences the gradients that go through it, by name, and no others.
TEST(LayerJudge, GradientsThatDoNotGoThroughAWrongForwardAreJudged) {
  LayerSetting setting = fixtures::under_law("top_left", Branch::sel, "o_sel", kEverywhere, 0, 0);
  const LayerJudgement right = judged(setting);
  ASSERT_EQ(right.departures.size(), 1U) << text_of(right.departures);
  EXPECT_EQ(judged_gradients(right),
            (std::set<std::string>{"g.w.W_K_cmp.weight",
                                   "g.w.W_V_cmp.weight",
                                   "g.w.W_K_win.weight",
                                   "g.w.W_V_win.weight",
                                   "g.w.gate.fc1.bias",
                                   "g.w.gate.fc1.weight",
                                   "g.w.gate.fc2.bias",
                                   "g.w.gate.fc2.weight",
                                   "g.w.out.weight"}));
  EXPECT_EQ(right.missing,
            std::vector<std::string>{
                "the gradients of W_K_sel, W_Q, W_V_sel, x, which go through o_sel"});
  setting = with_both(setting, [] {
    LayerSetting wrong;
    wrong.spoil = [](const std::string& name, oracles::Tensor& tensor) {
      if (name != "g.w.W_V_win.weight") return;
      for (double& value : tensor.data) value *= 1.25;
    };
    return wrong;
  }());
  const LayerJudgement both = judged(setting);
  ASSERT_EQ(both.departures.size(), 2U) << text_of(both.departures);
  EXPECT_EQ(both.departures[0].code, "MASK.ALIGNMENT");
  EXPECT_EQ(both.departures[1].code, "NUMERIC.GRADIENT");
  EXPECT_EQ(both.departures[1].site.branch, "win");
  EXPECT_EQ(both.departures[1].law(), "factor");
}

TEST(LayerJudge, NoGradientIsJudgedAfterAWrongOutput) {
  LayerSetting setting;
  setting.spoil = [](const std::string& name, oracles::Tensor& tensor) {
    if (name == "y") tensor.data.at(5) += 0.5;
  };
  const LayerJudgement layer = judged(setting);
  EXPECT_EQ(layer.departures.size(), 1U) << text_of(layer.departures);
  EXPECT_TRUE(judged_gradients(layer).empty());
  ASSERT_EQ(layer.missing.size(), 1U);
  EXPECT_NE(layer.missing.front().find(", gate.fc1, "), std::string::npos) << layer.missing.front();
}

// Two branches whose own gradients are wrong are two causes; all three have one in common.
TEST(LayerJudge, WrongGradientsOfTwoBranchesAreTwoDeviations) {
  const auto spoiled = [](const std::set<std::string>& names) {
    LayerSetting setting;
    setting.spoil = [names](const std::string& name, oracles::Tensor& tensor) {
      if (names.count(name) == 0) return;
      for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        tensor.data[i] += i % 3 == 0 ? 0.01 : 0.0;
      }
    };
    return judged(setting);
  };
  const LayerJudgement two = spoiled({"g.w.W_K_sel.weight", "g.w.W_V_win.weight", "dx"});
  ASSERT_EQ(two.departures.size(), 2U) << text_of(two.departures);
  EXPECT_EQ(two.departures[0].site.branch, "sel");
  EXPECT_EQ(two.departures[0].tensors, (std::vector<std::string>{"g.w.W_K_sel.weight", "dx"}));
  EXPECT_EQ(two.departures[1].site.branch, "win");
  EXPECT_EQ(two.departures[1].tensors, (std::vector<std::string>{"g.w.W_V_win.weight", "dx"}));
  const LayerJudgement three =
      spoiled({"g.w.W_K_sel.weight", "g.w.W_V_win.weight", "g.w.W_V_cmp.weight"});
  EXPECT_EQ(three.departures.size(), 1U) << text_of(three.departures);
}

// A law of the backward is named by all gradients together.
TEST(LayerJudge, NamesALawOfTheBackward) {
  const LayerSetting plain;
  const LayerTensors healthy = fixtures::made_layer(plain, 0, 0);
  const LayerRecord record = recorded(healthy, plain);
  const oracles::Stages forward(
      record.config, record.weights, record.x, {.replay = healthy.blocks});
  const oracles::Backward backward(forward, *record.dy);
  for (const oracles::BackwardLaw& law : oracles::backward_laws()) {
    for (const Branch branch : law.branches) {
      const oracles::AttentionGradients made =
          backward.gradients(branch, law.through(backward, branch));
      LayerSetting setting;
      setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
        if (name == "dx") tensor = made.x;
        if (name.rfind("g.w.", 0) == 0) tensor = made.weights.at(name.substr(4));
      };
      const LayerJudgement layer = judged(setting);
      ASSERT_EQ(layer.departures.size(), 1U) << law.law.name << ": " << text_of(layer.departures);
      EXPECT_EQ(layer.departures.front().code, "NUMERIC.GRADIENT");
      EXPECT_EQ(layer.departures.front().law(), law.law.name);
      EXPECT_EQ(layer.departures.front().site.branch, oracles::branch_name(branch));
    }
  }
}

LayerSetting long_setting() {
  LayerSetting setting;
  setting.length = 4200;
  setting.model.n_layers = 1;
  setting.inputs = [](oracles::Tensor&, oracles::Tensor& dy) {
    for (std::size_t i = 0; i < dy.data.size(); ++i) {
      if (i / 16 % 60 != 0) dy.data[i] = 0.0;
    }
  };
  return setting;
}

TEST(LayerJudge, ALongSequenceIsJudgedByASample) {
  const LayerSetting setting = long_setting();
  LayerTensors tensors = fixtures::made_layer(setting, 0, 0);
  const LayerRecord record = recorded(tensors, setting);
  EXPECT_TRUE(record.is_sample());
  EXPECT_GE(record.row_count(), harness::checks::kFewestRows);
  EXPECT_FALSE(record.dy_elsewhere);
  const LayerJudgement layer = harness::checks::judge_layer(record, setting.model);
  EXPECT_TRUE(layer.departures.empty()) << text_of(layer.departures);
  EXPECT_TRUE(layer.missing.empty());
  EXPECT_EQ(layer.errors.count("dx"), 1U);
  EXPECT_LT(layer.rows, layer.rows_in_all);
  // The choice is judged in every row all the same.
  std::int64_t row = 4001;
  while (std::binary_search(record.rows.begin(), record.rows.end(), row)) ++row;
  std::int64_t* list = tensors.blocks.data.data() + row * setting.model.n_sel;
  list[1] = list[1] == 5 ? 6 : 5;
  const ChoiceJudgement choice = harness::checks::judge_choice(recorded(tensors, setting));
  ASSERT_EQ(choice.departures.size(), 1U);
  EXPECT_EQ(choice.departures.front().site.rows, std::vector<int>{static_cast<int>(row)});
  EXPECT_EQ(choice.departures.front().site.op, "select");
}

TEST(LayerJudge, GradientsOfASampleNeedAnOutputWithoutOthers) {
  LayerSetting setting = long_setting();
  setting.inputs = {};
  setting.gradients = false;
  const LayerRecord record = recorded(fixtures::made_layer(setting, 0, 0), setting);
  EXPECT_TRUE(record.dy_elsewhere);
  const LayerJudgement layer = harness::checks::judge_layer(record, setting.model);
  EXPECT_TRUE(layer.departures.empty());
  ASSERT_EQ(layer.missing.size(), 1U);
}

TEST(SampleRows, AreSeededAndHoldTheEdges) {
  const auto config = harness::checks::oracle_config(fixtures::toy_model());
  const auto rows = harness::checks::sample_rows(config, 10000, 7, {777, 778});
  EXPECT_EQ(rows, harness::checks::sample_rows(config, 10000, 7, {777, 778}));
  EXPECT_NE(rows, harness::checks::sample_rows(config, 10000, 8, {777, 778}));
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  for (const std::int64_t row : {0L, 2L, 3L, 5L, 6L, 777L, 778L, 9999L}) {
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), row)) << row;
  }
}

TEST(Reals, ReadsNarrowTypes) {
  const std::vector<std::uint16_t> bits = {0x3F80, 0xC000, 0x0001, 0x7C00, 0x3C01};
  const auto bytes = std::as_bytes(std::span(bits));
  const harness::checks::Reals bf16({nsa::DType::bf16, {5}, bytes, "x"});
  EXPECT_EQ(bf16[0], 1.0);
  EXPECT_EQ(bf16[1], -2.0);
  EXPECT_EQ(bf16.unit_roundoff(), 0x1p-8);
  const harness::checks::Reals f16({nsa::DType::f16, {5}, bytes, "x"});
  EXPECT_EQ(f16[1], -2.0);
  EXPECT_EQ(f16[2], 0x1p-24);
  EXPECT_TRUE(std::isinf(f16[3]));
  EXPECT_EQ(f16[4], 1.0 + 0x1p-10);
  const nsa::TensorView view{nsa::DType::f16, {5}, bytes, "x"};
  const std::vector<double> wanted = nsa::to_doubles(view);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(f16[i], wanted[i]);
}

}  // namespace
