// The configuration of a golden file as text: what is filled in, what goes round, and damaged texts.
#include "harness/golden/golden_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/mutate.h"

namespace {

using harness::GoldenConfig;
using harness::GoldenLevel;
using testing::HasSubstr;

constexpr const char* kAttention =
    R"({"dim":12,"n_heads":4,"n_kv_groups":2,"d_k":6,"d_v":3,"l":8,"d":4,"l_sel":16,"n_sel":4,"w":5})";
constexpr const char* kTrain =
    R"({"dim":12,"n_heads":4,"n_kv_groups":2,"d_k":6,"d_v":3,"l":8,"d":4,"l_sel":16,"n_sel":4,"w":5,
        "init_blocks":0,"local_blocks":1,"rope_base":500.5,"rope_scale":1e30,"gate":"head_sigmoid","gate_temp":0.5,
        "gate_hidden":7,"phi":"mlp","eq9":"overlap","n_layers":3,"vocab_size":31,"mlp_ratio":2,
        "train":{"lr":0.005,"betas":[0.8,0.99],"eps":1e-8,"weight_decay":0.1,"max_norm":1.3,"warmup":2,"total":6}})";

GoldenConfig parsed(const std::string& text, GoldenLevel level) {
  return harness::parse_golden_config(text, level, "f");
}

TEST(GoldenConfig, DefaultsAreThoseOfTheReadme) {
  const nsa::ModelConfig model = parsed(kAttention, GoldenLevel::attention).model;
  EXPECT_EQ(model.init_blocks, 1);
  EXPECT_EQ(model.local_blocks, 2);
  EXPECT_EQ(model.rope_base, 10000.0);
  EXPECT_EQ(model.rope_scale, 1.0);
  EXPECT_EQ(model.gate, nsa::Gate::group_softmax);
  EXPECT_EQ(model.gate_temp, 1.0);
  EXPECT_EQ(model.gate_width(), 3);
  EXPECT_EQ(model.phi, nsa::Phi::avg);
  EXPECT_EQ(model.eq9, nsa::Eq9::fractional);
  EXPECT_EQ(model.mlp_ratio, 4);
  EXPECT_EQ(model.n_layers, 1);
}

TEST(GoldenConfig, EveryKeyIsReadAndGoesRound) {
  const GoldenConfig config = parsed(kTrain, GoldenLevel::train);
  EXPECT_EQ(config.model.rope_scale, 1e30);
  EXPECT_EQ(config.model.n_layers, 3);
  EXPECT_EQ(config.model.vocab_size, 31);
  ASSERT_TRUE(config.train.has_value());
  EXPECT_EQ(config.train->beta2, 0.99);
  EXPECT_EQ(config.train->total, 6);
  const std::string text = harness::golden_config_text(config, GoldenLevel::train);
  EXPECT_EQ(parsed(text, GoldenLevel::train), config);
  EXPECT_FALSE(parsed(kTrain, GoldenLevel::lm).train.has_value());
}

TEST(GoldenConfig, AModelThatCannotBeIsRefused) {
  std::string text = kAttention;
  text.replace(text.find("\"d\":4"), 5, "\"d\":3");
  EXPECT_THAT(error_of([&] { (void)parsed(text, GoldenLevel::attention); }),
              HasSubstr("f: config: l: found 8, wanted a multiple of d = 3"));
  EXPECT_THAT(error_of([&] { (void)parsed(kAttention, GoldenLevel::lm); }),
              HasSubstr("f: config: found no key 'n_layers'"));
}

TEST(GoldenConfig, TwentyThousandDamagedTextsAreReadOrRefused) {
  fakes::Mutator damaged(7, 4096);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = damaged(kTrain);
    try {
      const GoldenConfig config = parsed(text, GoldenLevel::train);
      GoldenConfig again =
          parsed(harness::golden_config_text(config, GoldenLevel::train), GoldenLevel::train);
      EXPECT_EQ(again.model.gate_width(), config.model.gate_width());
      again.model.gate_hidden = config.model.gate_hidden;  // its default is written out
      EXPECT_TRUE(again == config) << text;
      ++read;
    } catch (const nsa::Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("f: config: ")) << error.what();
      EXPECT_LT(std::string(error.what()).size(), 2000U);
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_LT(read, 19'000);
}

}  // namespace
