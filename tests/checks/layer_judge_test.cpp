// Laws of judging one recorded layer: what is right passes in every variant and at every length, a wrong law is named from a
// few rows, a wrong stage is blamed alone, a long sequence is judged by a sample of its rows.
#include "harness/checks/layer_judge.h"

#include <gtest/gtest.h>

#include "harness/checks/choice_judge.h"
#include "harness/checks/sample_rows.h"
#include "tests/checks/planted_numbers.h"

namespace {

using fixtures::LayerSetting;
using fixtures::LayerTensors;
using harness::checks::ChoiceJudgement;
using harness::checks::Deviation;
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
  return harness::checks::judge_layer(record, setting.model, true);
}

std::string text_of(const std::vector<Deviation>& deviations) {
  std::string text;
  for (const Deviation& seen : deviations) {
    text += seen.code + " " + seen.branch + " " + seen.op + " " + seen.law + " " +
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
        const LayerJudgement layer = harness::checks::judge_layer(record, setting.model, true);
        EXPECT_TRUE(layer.deviations.empty()) << length << ": " << text_of(layer.deviations);
        EXPECT_TRUE(layer.missing.empty());
        EXPECT_GT(layer.errors.size(), 20U);
        const ChoiceJudgement choice = harness::checks::judge_choice(record);
        EXPECT_TRUE(choice.deviations.empty()) << length << ": " << text_of(choice.deviations);
        EXPECT_TRUE(choice.missing.empty());
        EXPECT_EQ(choice.rows, 2 * 2 * length);
        EXPECT_LE(choice.worst_share_of_bound, 1.0);
      }
    }
  }
}

// A law that gives wrong rows in the last block of one group, or in a single row of it, is named by its code.
TEST(LayerJudge, NamesAMaskFromTheLastBlockAlone) {
  for (const oracles::KeyLaw& law : oracles::key_laws()) {
    for (const Branch branch : law.branches) {
      const std::string suffix = branch == Branch::cmp   ? "cmp"
                                 : branch == Branch::sel ? "sel"
                                                         : "win";
      for (const std::int64_t first : {28, 30}) {
        const auto which = [&](std::int64_t group, std::int64_t row) {
          return group == 1 && row >= first && (first == 28 || row == 30);
        };
        const auto setting =
            fixtures::under_law(std::string(law.name), branch, "o_" + suffix, which, 0, 0);
        const LayerJudgement layer = judged(setting);
        // Nothing to see where the law gives what is right: only rows without keys have a sentinel.
        if (law.name == "finite_sentinel") {
          EXPECT_TRUE(layer.deviations.empty()) << text_of(layer.deviations);
          continue;
        }
        ASSERT_EQ(layer.deviations.size(), 1U) << law.name << " " << suffix;
        const Deviation& seen = layer.deviations.front();
        EXPECT_EQ(seen.code, harness::checks::code_of_key_law(law.name))
            << law.name << " " << suffix << ": " << text_of(layer.deviations);
        EXPECT_EQ(seen.branch, suffix);
        EXPECT_EQ(seen.op, "attend_" + suffix);
        EXPECT_EQ(seen.groups, std::vector<int>{1});
        EXPECT_FALSE(seen.law.empty());
        for (const int row : seen.rows) EXPECT_GE(row, first);
      }
    }
  }
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
  ASSERT_EQ(layer.deviations.size(), 1U) << text_of(layer.deviations);
  EXPECT_EQ(layer.deviations.front().code, "NUMERIC.FORWARD");
  EXPECT_EQ(layer.deviations.front().law, "finite_sentinel");
  EXPECT_EQ(layer.deviations.front().rows, (std::vector<int>{0, 1, 2}));
}

// One element of any stage: that stage is blamed, and no other, though all that follows from it was computed from it.
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
    const LayerJudgement layer = harness::checks::judge_layer(record, setting.model, true);
    ASSERT_EQ(layer.deviations.size(), 1U) << stage << ": " << text_of(layer.deviations);
    EXPECT_EQ(layer.deviations.front().tensors, std::vector<std::string>{stage});
    EXPECT_TRUE(harness::checks::judge_choice(record).deviations.empty()) << stage;
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
    ASSERT_EQ(layer.deviations.size(), 1U) << stage << ": " << text_of(layer.deviations);
    EXPECT_EQ(layer.deviations.front().tensors, std::vector<std::string>{stage});
  }
}

TEST(LayerJudge, ExplainsWrongInputsOfABranch) {
  struct Case {
    const char* law;
    const char* stage;
    std::function<void(oracles::AttendInputs&)> change;
  };
  const LayerSetting plain;
  const LayerTensors healthy = fixtures::made_layer(plain, 0, 2);
  const LayerRecord record = recorded(healthy, plain);
  const oracles::AttendInputs right = {record.rows,
                                       record.at("q"),
                                       {record.at("k_cmp"), record.at("k_sel"), record.at("k_win")},
                                       {record.at("v_cmp"), record.at("v_sel"), record.at("v_win")},
                                       record.blocks};
  const std::vector<Case> cases = {
      {"shared W_K_win", "o_sel", [](auto& in) { in.k[1] = in.k[2], in.v[1] = in.v[2]; }},
      {"shared W_V_sel", "o_win", [](auto& in) { in.v[2] = in.v[1]; }},
      {"logits_not_scaled",
       "o_win",
       [](auto& in) {
         for (double& value : in.q.data) value *= 2.0;
       }},
      {"group_off_by_1", "o_cmp", [](auto& in) {
         for (auto* tensor : {&in.k[0], &in.v[0]}) {
           const auto half = static_cast<std::ptrdiff_t>(tensor->data.size() / 2);
           std::rotate(tensor->data.begin(), tensor->data.begin() + half, tensor->data.end());
         }
       }}};
  for (const Case& one : cases) {
    oracles::AttendInputs inputs = right;
    one.change(inputs);
    const std::string stage = one.stage;
    const Branch branch = stage == "o_cmp"   ? Branch::cmp
                          : stage == "o_sel" ? Branch::sel
                                             : Branch::win;
    const oracles::Tensor wrong =
        oracles::KeyLawOutputs(record.config, inputs).right_output(branch);
    LayerSetting setting;
    setting.spoil = [&](const std::string& name, oracles::Tensor& tensor) {
      if (name == stage) tensor = wrong;
    };
    const LayerJudgement layer = judged(setting, 2);
    ASSERT_EQ(layer.deviations.size(), 1U) << one.law << ": " << text_of(layer.deviations);
    EXPECT_EQ(layer.deviations.front().law, one.law);
    EXPECT_EQ(layer.deviations.front().code, "NUMERIC.FORWARD");
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
  const LayerJudgement layer = harness::checks::judge_layer(record, setting.model, true);
  EXPECT_TRUE(layer.deviations.empty()) << text_of(layer.deviations);
  EXPECT_TRUE(layer.missing.empty());
  EXPECT_EQ(layer.errors.count("dx"), 1U);
  EXPECT_LT(layer.rows, layer.rows_in_all);
  // The choice is judged in every row all the same.
  std::int64_t row = 4001;
  while (std::binary_search(record.rows.begin(), record.rows.end(), row)) ++row;
  std::int64_t* list = tensors.blocks.data.data() + row * setting.model.n_sel;
  list[1] = list[1] == 5 ? 6 : 5;
  const ChoiceJudgement choice = harness::checks::judge_choice(recorded(tensors, setting));
  ASSERT_EQ(choice.deviations.size(), 1U);
  EXPECT_EQ(choice.deviations.front().rows, std::vector<int>{static_cast<int>(row)});
  EXPECT_EQ(choice.deviations.front().op, "select");
}

TEST(LayerJudge, GradientsOfASampleNeedAnOutputWithoutOthers) {
  LayerSetting setting = long_setting();
  setting.inputs = {};
  setting.gradients = false;
  const LayerRecord record = recorded(fixtures::made_layer(setting, 0, 0), setting);
  EXPECT_TRUE(record.dy_elsewhere);
  const LayerJudgement layer = harness::checks::judge_layer(record, setting.model, true);
  EXPECT_TRUE(layer.deviations.empty());
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
