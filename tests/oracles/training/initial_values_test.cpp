// Initial values: right models pass whatever their seed and type, and every mistake has its name.
#include "oracles/training/initial_values.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/training/distribution.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;
using Kind = InitialLaw::Kind;

LmConfig config_of(Phi phi, Gate gate) {
  LmConfig c;
  c.attention.dim = 64;
  c.attention.n_heads = 4;
  c.attention.n_kv_groups = 2;
  c.attention.d_k = 16;
  c.attention.d_v = 16;
  c.attention.l = 8;
  c.attention.d = 4;
  c.attention.l_sel = 8;
  c.attention.n_sel = 4;
  c.attention.w = 16;
  c.attention.phi = phi;
  c.attention.gate = gate;
  c.n_layers = 3;
  c.vocab_size = 300;
  return c;
}

// A model's parameters as a run would record them.
class Model {
 public:
  Model(std::uint64_t seed, const LmConfig& config, Number number)
      : config_(config), number_(number), random_(seed) {
    for (const auto& [name, shape] : parameter_shapes(config)) {
      values_[name] = drawn(initial_law(config, name), element_count(shape));
    }
  }

  std::vector<double> drawn(const InitialLaw& law, std::int64_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::normal_distribution<float> normal;
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = law.kind == Kind::constant  ? law.size
                       : law.kind == Kind::uniform ? law.size * uniform(random_)
                                                   : law.size * normal(random_);
      values.push_back(x);
    }
    return values;
  }

  std::vector<double>& operator[](const std::string& name) { return values_.at(name); }
  [[nodiscard]] double size_of(const std::string& name) const {
    return initial_law(config_, name).size;
  }

  InitialJudgement judged(int threads = 1) {
    bytes_.clear();
    std::vector<InitialRecord> records;
    for (const auto& [name, shape] : parameter_shapes(config_)) {
      const std::vector<double>& values = values_.at(name);
      std::vector<unsigned char>& own = bytes_[name];
      for (const double value : values) {
        write(value, own);
      }
      records.push_back(
          {name, shape, {own.data(), static_cast<std::int64_t>(values.size()), number_}});
    }
    return judge_initial_values(config_, records, threads);
  }

  // "parameter law (detail)" of everything that is wrong.
  std::vector<std::string> told() {
    std::vector<std::string> texts;
    for (const InitialWrong& wrong : judged().wrong) {
      texts.push_back(wrong.parameter + " " + std::string(wrong.law.name) +
                      (wrong.detail.empty() ? "" : " (" + wrong.detail + ")"));
    }
    return texts;
  }

 private:
  void write(double value, std::vector<unsigned char>& to) const {
    const double kept = rounded(value, number_);
    const auto put = [&](const void* from, std::size_t count) {
      const auto* const bytes = static_cast<const unsigned char*>(from);
      to.insert(to.end(), bytes, bytes + count);
    };
    if (number_ == Number::f64) {
      put(&kept, 8);
      return;
    }
    const auto single = static_cast<float>(kept);
    if (number_ == Number::f32) {
      put(&single, 4);
      return;
    }
    std::uint32_t bits = 0;
    std::memcpy(&bits, &single, 4);
    auto half = static_cast<std::uint16_t>(bits >> 16U);
    if (number_ == Number::f16) {
      // Sizes here are normal numbers of float16 or 0.
      const float moved = single * 0x1p-112F;
      std::memcpy(&bits, &moved, 4);
      half = static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | (bits >> 13U & 0x7FFFU));
    }
    put(&half, 2);
  }

  LmConfig config_;
  Number number_;
  std::mt19937_64 random_;
  std::map<std::string, std::vector<double>> values_;
  std::map<std::string, std::vector<unsigned char>> bytes_;
};

const LmConfig kPlain = config_of(Phi::avg, Gate::group_softmax);

TEST(InitialLaws, OfEveryKindOfParameter) {
  const auto law = [](const LmConfig& c, const std::string& name) {
    const InitialLaw found = initial_law(c, name);
    return std::pair(found.kind, found.size);
  };
  const LmConfig conv = config_of(Phi::conv, Gate::head_sigmoid);
  const LmConfig mlp = config_of(Phi::mlp, Gate::head_sigmoid);
  EXPECT_EQ(law(kPlain, "embed.weight"), std::pair(Kind::normal, 1.0));
  EXPECT_EQ(law(kPlain, "norm_f.weight"), std::pair(Kind::constant, 1.0));
  EXPECT_EQ(law(kPlain, "blocks.1.norm2.weight"), std::pair(Kind::constant, 1.0));
  EXPECT_EQ(law(kPlain, "lm_head.weight"), std::pair(Kind::uniform, 1 / 8.0));
  EXPECT_EQ(law(kPlain, "blocks.0.mlp.fc2.weight"), std::pair(Kind::uniform, 1 / 16.0));
  EXPECT_EQ(law(kPlain, "blocks.0.attn.gate.fc1.weight"), std::pair(Kind::uniform, 1 / 4.0));
  EXPECT_EQ(law(kPlain, "blocks.0.attn.gate.fc1.bias"), std::pair(Kind::uniform, 1 / 4.0));
  EXPECT_EQ(law(kPlain, "blocks.0.attn.gate.fc2.weight"),
            std::pair(Kind::uniform, 0.1 * std::sqrt(6.0 / 11)));
  EXPECT_EQ(law(kPlain, "blocks.0.attn.gate.fc2.bias"), std::pair(Kind::constant, 0.0));
  EXPECT_EQ(law(conv, "blocks.0.attn.gate.proj.weight"), std::pair(Kind::uniform, 1 / 8.0));
  EXPECT_EQ(law(conv, "blocks.0.attn.phi_k_conv.weight"), std::pair(Kind::constant, 1 / 8.0));
  EXPECT_EQ(law(mlp, "blocks.2.attn.phi_v.pe"), std::pair(Kind::constant, 0.0));
  EXPECT_EQ(law(mlp, "blocks.2.attn.phi_v.fc1.weight"),
            std::pair(Kind::uniform, 1 / std::sqrt(128.0)));
  EXPECT_THROW((void)law(kPlain, "blocks.3.norm1.weight"), std::invalid_argument);
  EXPECT_THROW((void)law(kPlain, "blocks.0.attn.gate.proj.weight"), std::invalid_argument);
}

TEST(InitialValues, RightModelsPass) {
  for (const Number number : {Number::f64, Number::f32, Number::bf16, Number::f16}) {
    for (const Phi phi : {Phi::avg, Phi::conv, Phi::mlp}) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const Gate gate = seed % 2 == 0 ? Gate::head_sigmoid : Gate::group_softmax;
        Model model(seed, config_of(phi, gate), number);
        const InitialJudgement judgement = model.judged();
        EXPECT_GE(judgement.tensors, 40);
        EXPECT_GE(judgement.numbers, 100000);
        EXPECT_TRUE(judgement.wrong.empty())
            << number_name(number) << " " << seed << " " << judgement.wrong[0].parameter << " "
            << judgement.wrong[0].law.name << " " << judgement.wrong[0].detail;
      }
    }
  }
}

// The bounds hold for every count: at an alarm of one in five, no more than that are refused.
TEST(InitialValues, FalseAlarmsAreAsSeldomAsSaid) {
  Model model(1, kPlain, Number::f32);
  for (const InitialLaw& law : {InitialLaw{Kind::uniform, 0.3}, InitialLaw{Kind::normal, 2}}) {
    const Distribution distribution{law};
    const Places places(distribution, Number::f32);
    for (const std::int64_t count : {1, 7, 100, 3000}) {
      int refused = 0;
      for (int i = 0; i < 300; ++i) {
        Moments moments;
        for (const double x : model.drawn(law, count)) {
          moments.add(rounded(x, Number::f32), places);
        }
        refused += is_possible(moments, distribution, places, Number::f32, 0.2) ? 0 : 1;
      }
      EXPECT_LE(refused, 300 * 0.2) << count;
    }
  }
}

TEST(Places, CountWhatIsBelowThem) {
  const Distribution normal{{Kind::normal, 2}};
  EXPECT_NEAR(normal.share_below(2), 0.841344746, 1e-9);
  EXPECT_NEAR(normal.quantile(0.841344746), 2, 1e-6);
  for (const Number number : {Number::f32, Number::bf16}) {
    const Places places(normal, number);
    Model model(2, kPlain, number);
    for (const double x : model.drawn(normal.law, 20000)) {
      const double kept = rounded(x, number);
      const int cell = places.cell(kept);
      // No number of the type lies on an end: the exact number is in the same cell.
      ASSERT_EQ(cell, places.cell(x));
      ASSERT_LE(normal.share_below(x), places.share_below(cell));
      if (cell > 0) {
        ASSERT_GE(normal.share_below(x), places.share_below(cell - 1));
      }
    }
  }
}

struct Mistake {
  std::string name;
  std::string parameter;
  std::function<void(Model&, std::vector<double>&)> make;
  std::string told;
};

std::vector<Mistake> mistakes() {
  const std::string fc1 = "blocks.1.mlp.fc1.weight";
  const std::string head = "lm_head.weight";
  const std::string fc2 = "blocks.2.attn.gate.fc2.weight";
  const auto redrawn = [](Kind kind, double size) {
    return [=](Model& model, std::vector<double>& values) {
      values = model.drawn({kind, size}, static_cast<std::int64_t>(values.size()));
    };
  };
  const auto times = [](double factor) {
    return [=](Model&, std::vector<double>& values) {
      for (double& value : values) {
        value *= factor;
      }
    };
  };
  const auto all = [](double constant) {
    return [=](Model&, std::vector<double>& values) {
      std::fill(values.begin(), values.end(), constant);
    };
  };
  return {
      {"zeros", fc1, all(0), "init_zero"},
      {"a_constant", fc1, all(0.25), "init_constant (0.25)"},
      {"not_finite", fc1, [](Model&, auto& v) { v[77] = NAN; }, "init_not_finite (1 of 16384)"},
      {"factor", fc1, times(1.1), "init_factor (factor 1.1)"},
      {"factor_below", fc1, times(0.9), "init_factor (factor 0.9)"},
      {"normal", fc1, redrawn(Kind::normal, 0.125 / std::sqrt(3.0)), "init_normal"},
      {"normal_small", fc1, redrawn(Kind::normal, 0.02), "init_normal_0.02"},
      {"normal_one", fc1, redrawn(Kind::normal, 1), "init_normal_1"},
      {"xavier", fc1, redrawn(Kind::uniform, std::sqrt(6 / 320.0)), "init_xavier_uniform"},
      {"xavier_normal", fc1, redrawn(Kind::normal, std::sqrt(2 / 320.0)), "init_xavier_normal"},
      {"kaiming", fc1, redrawn(Kind::uniform, std::sqrt(6 / 64.0)), "init_kaiming_uniform"},
      {"kaiming_normal", fc1, redrawn(Kind::normal, std::sqrt(2 / 64.0)), "init_kaiming_normal"},
      {"lecun", fc1, redrawn(Kind::uniform, std::sqrt(3 / 64.0)), "init_lecun_uniform"},
      {"of_outputs", fc1, redrawn(Kind::uniform, 1 / 16.0), "init_of_outputs"},
      {"square",
       "blocks.0.attn.W_Q.weight",
       redrawn(Kind::uniform, std::sqrt(3 / 64.0)),
       "init_xavier_uniform (or init_lecun_uniform)"},
      {"positive",
       fc1,
       [](Model&, auto& v) {
         for (double& x : v) {
           x = std::abs(x);
         }
       },
       "init_positive"},
      {"part_zero",
       fc1,
       [](Model&, auto& v) { std::fill_n(v.begin(), 4096, 0.0); },
       "init_part_zero (share 0.25)"},
      {"drawn_narrow",
       fc1,
       [](Model&, auto& v) {
         for (double& x : v) {
           x = rounded(x, Number::bf16);
         }
       },
       "init_drawn_narrow"},
      {"unknown",
       fc1,
       [](Model&, auto& v) {
         for (double& x : v) {
           x = std::copysign(0.1, x);
         }
       },
       "init_unknown"},
      {"gain_missing", fc2, redrawn(Kind::uniform, std::sqrt(6 / 11.0)), "init_gain_missing"},
      {"embed_uniform", "embed.weight", redrawn(Kind::uniform, std::sqrt(3.0)), "init_uniform"},
      {"embed_small", "embed.weight", redrawn(Kind::normal, 0.02), "init_normal_0.02"},
      {"embed_factor", "embed.weight", times(0.125), "init_factor (factor 0.12"},
      {"norm_zero", "norm_f.weight", all(0), "init_zero"},
      {"norm_constant", "norm_f.weight", all(1.1), "init_constant (1.1)"},
      {"norm_random", "norm_f.weight", redrawn(Kind::normal, 1), "init_random (root of the mean"},
      {"bias_one", "blocks.0.attn.gate.fc2.bias", all(1), "init_constant (1)"},
      {"equal",
       head,
       [](Model& m, auto& v) { v = m["embed.weight"]; },
       "init_equal_tensors (embed.weight)"},
  };
}

class InitialMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(InitialMistakes, AreTold) {
  Model model(3, kPlain, Number::f32);
  GetParam().make(model, model[GetParam().parameter]);
  const std::vector<std::string> told = model.told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], ::testing::StartsWith(GetParam().parameter + " " + GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(All,
                         InitialMistakes,
                         ::testing::ValuesIn(mistakes()),
                         [](const auto& param) { return param.param.name; });

TEST(InitialRepeats, EqualTensors) {
  Model model(4, kPlain, Number::bf16);
  model["blocks.1.attn.W_V_sel.weight"] = model["blocks.1.attn.W_K_sel.weight"];
  EXPECT_THAT(model.told(),
              ::testing::ElementsAre("blocks.1.attn.W_V_sel.weight init_equal_tensors "
                                     "(blocks.1.attn.W_K_sel.weight)"));
}

// The generator is seeded anew for a tensor of another shape.
TEST(InitialRepeats, TheSameDraws) {
  Model model(5, kPlain, Number::f32);
  const std::vector<double> from = model["blocks.0.mlp.fc1.weight"];
  std::vector<double>& to = model["blocks.0.mlp.fc2.weight"];
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = from[i] / 2;
  }
  EXPECT_THAT(model.told(),
              ::testing::ElementsAre("blocks.0.mlp.fc2.weight init_same_draws "
                                     "(blocks.0.mlp.fc1.weight)"));
}

TEST(InitialRepeats, EqualRows) {
  Model model(6, kPlain, Number::f32);
  std::vector<double>& w = model["blocks.2.attn.out.weight"];
  std::copy_n(w.begin() + 5 * 64, 64, w.begin() + 40 * 64);
  EXPECT_THAT(model.told(),
              ::testing::ElementsAre("blocks.2.attn.out.weight init_equal_rows "
                                     "(row 40 is row 5 of blocks.2.attn.out.weight)"));
  Model other(7, kPlain, Number::f32);
  std::copy_n(other["blocks.0.mlp.fc1.weight"].begin() + 64,
              64,
              other["blocks.1.mlp.fc1.weight"].begin() + 128);
  EXPECT_THAT(other.told()[0], HasSubstr("(row 2 is row 1 of blocks.0.mlp.fc1.weight)"));
}

// 8 biases of a block say little; those of all blocks are too many to be a fifth too large... seen only
// by what no uniform number may exceed, so here they are too small.
TEST(InitialKinds, SmallTensorsAreSeenTogether) {
  LmConfig config = kPlain;
  config.n_layers = 40;
  Model model(8, config, Number::f32);
  for (std::int64_t layer = 0; layer < 40; ++layer) {
    for (double& x : model["blocks." + std::to_string(layer) + ".attn.gate.fc1.bias"]) {
      x *= 0.3;
    }
  }
  EXPECT_THAT(
      model.told(),
      ::testing::ElementsAre(::testing::StartsWith("blocks.*.attn.gate.fc1.bias init_factor")));
}

TEST(InitialValues, ThreadsChangeNothing) {
  Model model(9, kPlain, Number::f32);
  model["lm_head.weight"][9] = 4;
  EXPECT_EQ(model.judged(1).wrong.size(), 1u);
  EXPECT_EQ(model.judged(3).wrong.size(), 1u);
  EXPECT_GE(initial_laws().size(), 20u);
}

TEST(InitialValues, RefuseWhatDoesNotFit) {
  const std::vector<float> values(64, 1.0F);
  const InitialRecord right{"norm_f.weight", {64}, Numbers::of(values)};
  EXPECT_TRUE(judge_initial_values(kPlain, std::span(&right, 1)).wrong.empty());
  const InitialRecord name{"norm_g.weight", {64}, Numbers::of(values)};
  EXPECT_THROW((void)judge_initial_values(kPlain, std::span(&name, 1)), std::invalid_argument);
  const InitialRecord shape{"norm_f.weight", {8, 8}, Numbers::of(values)};
  EXPECT_THROW((void)judge_initial_values(kPlain, std::span(&shape, 1)), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
